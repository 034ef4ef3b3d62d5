"""Random sequences of operations on an agent, with crashes of the agent and of Ignite."""

from pathlib import Path

import pytest

from ignite_server.server import IgniteServer
from tests.storage_agent.crashes.limits import EXAMPLES
from tests.storage_agent.crashes.machine import explore


# Hypothesis takes an error raised by a signal for a failing example, and runs the example again.
# Only the end of the process stops Hypothesis.
@pytest.mark.timeout(120, method="thread")
def test_agent_with_crashes_agrees_with_model_briefly(
    ignite_server: IgniteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explore(ignite_server, tmp_path, monkeypatch, examples=4, steps=10)


@pytest.mark.soak
@pytest.mark.timeout(180 + 60 * EXAMPLES, method="thread")
@pytest.mark.parametrize("kills_ignite", [False, True])
def test_agent_with_crashes_agrees_with_model(
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
