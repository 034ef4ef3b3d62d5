"""Many random interleavings of all that is done to an agent, with crashes of it and of Ignite."""

from pathlib import Path

import pytest

from mistbow.ignite.server import IgniteServer
from tests.storage_agent.crashes.limits import EXAMPLES
from tests.storage_agent.crashes.machine import explore


@pytest.mark.timeout(120)
def test_an_agent_agrees_with_the_model_for_a_while(
    ignite_server: IgniteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explore(ignite_server, tmp_path, monkeypatch, examples=4, steps=10)


@pytest.mark.soak
@pytest.mark.timeout(180 + 60 * EXAMPLES)
@pytest.mark.parametrize("kills_ignite", [False, True])
def test_an_agent_agrees_with_the_model(
    ignite_server: IgniteServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills_ignite: bool,
) -> None:
    explore(
        ignite_server,
        tmp_path,
        monkeypatch,
        # To start Ignite again takes as long as all else of an example.
        examples=EXAMPLES // 5 if kills_ignite else EXAMPLES,
        steps=30,
        kills_ignite=kills_ignite,
    )
