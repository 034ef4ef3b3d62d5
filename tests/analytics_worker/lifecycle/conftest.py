"""The fixtures of the tests of runners."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics_worker.lifecycle import query_stops, runner, runner_state
from tests.analytics_worker.lifecycle.runner_scene import RunnerScene, running_scene


@pytest.fixture
def brief_pauses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shorten the pauses of runners, whose order stays the same."""
    monkeypatch.setattr(runner, "scratch_folder", lambda: tmp_path)
    monkeypatch.setattr(runner_state, "_OBSERVE_PERIOD_S", 0.01)
    monkeypatch.setattr(runner_state, "_CATCH_UP_PERIOD_S", 0.01)
    monkeypatch.setattr(runner_state, "_RETRY_PAUSES_S", (0.1, 0.2, 0.4, 0.8))
    monkeypatch.setattr(runner_state, "_SHORT_PAUSE_S", 0.05)
    monkeypatch.setattr(runner, "_OUTDATED_PATIENCE_S", 0.2)
    monkeypatch.setattr(query_stops, "_STOP_PAUSE_S", 0.1)
    monkeypatch.setattr(query_stops, "_LAST_STOP_PAUSES_S", (0.01, 0.03, 0.1))


@pytest.fixture
def scene() -> Iterator[RunnerScene]:
    with running_scene() as scene:
        yield scene
