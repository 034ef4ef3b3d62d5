"""The check of the sites without which a query cannot start."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from analytics_worker.lifecycle import start
from analytics_worker.lifecycle.start import SiteCheck, WriteLeases
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError, UnavailableError
from tests.analytics_worker.lifecycle.runner_scene import FIRST

_PATIENCE_S = 10.0


class Agent:
    """An agent that answers once it has received two requests; the source raises ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self._barrier = threading.Barrier(2)

    def at(self, _site: str) -> "Agent":
        """Return the agent itself, for each site."""
        return self

    def info(self, stream: str) -> Any:
        """Return the description of a stream."""
        self._barrier.wait(_PATIENCE_S)
        if stream == FIRST.source.stream and self._error is not None:
            raise self._error
        return SimpleNamespace(name=stream)


def check_of(agent: Agent) -> SiteCheck:
    """Return a check of the sites of ``FIRST`` that has just been made."""
    client = cast("AgentClient", agent)
    sites = SiteCheck(client)
    sites.check(FIRST, WriteLeases(client))
    return sites


@pytest.mark.parametrize("error", [None, NotFoundError("no stream")])
def test_source_and_target_are_asked_at_the_same_time(error: Exception | None) -> None:
    target = check_of(Agent(error)).take_target(FIRST, is_orphan=False)
    assert target is not None
    assert target.name == FIRST.target.stream


def test_check_fails_if_the_source_is_unreachable() -> None:
    with pytest.raises(UnavailableError):
        check_of(Agent(UnavailableError("no answer")))


def test_description_of_the_target_of_an_orphan_is_valid_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "_DESCRIBED_S", 0.0)
    assert check_of(Agent()).take_target(FIRST, is_orphan=False) is None
    sites = check_of(Agent())
    assert sites.take_target(FIRST, is_orphan=True) is not None
    assert sites.take_target(FIRST, is_orphan=True) is None
