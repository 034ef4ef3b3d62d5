"""An agent that can be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mistbow.ignite.server import IgniteServer
from tests.storage_agent.crashes.processes import AgentProcess


@pytest.fixture
def when_away() -> str:
    """What the agent does while Ignite is away; a test may say otherwise."""
    return "refuse"


@pytest.fixture
def agent(ignite: IgniteServer, tmp_path: Path, when_away: str) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, ignite, when_away=when_away)
    agent.start()
    yield agent
    agent.kill()
