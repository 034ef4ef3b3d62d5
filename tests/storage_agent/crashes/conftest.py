"""Fixtures of an agent process that a test can kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ignite_server.server import IgniteServer
from tests.storage_agent.crashes.processes import AgentProcess


@pytest.fixture
def when_away() -> str:
    """Return the agent's setting ``when_away``; a test can override this fixture."""
    return "refuse"


@pytest.fixture
def agent(ignite: IgniteServer, tmp_path: Path, when_away: str) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, ignite, when_away=when_away)
    agent.start()
    yield agent
    agent.kill()
