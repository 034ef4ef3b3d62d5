"""A storage agent that a test runs: real HTTP, real Ignite, a clock that the test may hold."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from mistbow.clock import Clock, system_clock
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.support.waiting import eventually


@contextmanager
def running_agent(settings: AgentSettings, clock: Clock = system_clock) -> Iterator[str]:
    """Serve an agent from a thread on a free port, and yield its URL once it is ready."""
    config = uvicorn.Config(
        create_app(settings, clock),
        host="127.0.0.1",
        port=0,
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, what="the agent listens")
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")
        yield url
    finally:
        server.should_exit = True
        thread.join(20)
