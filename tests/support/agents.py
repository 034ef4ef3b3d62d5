"""A storage agent that a test runs: real HTTP, real Ignite, a clock that the test may hold."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from mistbow.clock import Clock, system_clock
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.support.serving import served
from tests.support.waiting import eventually


@contextmanager
def running_agent(settings: AgentSettings, clock: Clock = system_clock) -> Iterator[str]:
    """Serve an agent from a thread on a free port, and yield its URL once it is ready."""
    with served(create_app(settings, clock)) as url:
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")
        yield url
