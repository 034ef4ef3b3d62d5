"""A storage agent in a thread of the test, with real HTTP, real Ignite and the test's clock."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from mistbow.clock import Clock, system_clock
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served


@contextmanager
def running_agent(
    settings: AgentSettings, clock: Clock = system_clock, *, ready: bool = True
) -> Iterator[str]:
    """Serve an agent from a thread on a free port; yield its URL once the agent is ready.

    ``ready``: False: yield its URL at once.
    """
    headers = {} if settings.secret is None else {"Authorization": f"Bearer {settings.secret}"}
    with served(create_app(settings, clock)) as url:
        readiness = f"{url}/readyz"
        if ready:
            eventually(
                lambda: httpx.get(readiness, headers=headers).is_success, what="the agent is ready"
            )
        yield url
