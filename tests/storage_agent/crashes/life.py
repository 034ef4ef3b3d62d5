"""An agent in the test's process, from its start to a simulated kill -9."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mistbow.clock import Clock
from storage_agent.agent.agent import Agent
from storage_agent.settings import AgentSettings
from tests.storage_agent.crashes.failing_link import FailingLink, Fault
from tests.support.conditions import aeventually

T = TypeVar("T")


class Life:
    """An agent, its link to Ignite, and its event loop; ended by ``close`` or by ``die``.

    The event loop runs only during ``run``: between two calls, the agent does nothing.
    """

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self.loop = asyncio.new_event_loop()
        self.dead = asyncio.Event()
        self.link = self.run(FailingLink(settings.ignite_port).start())
        self.agent = Agent(settings.model_copy(update={"ignite_port": self.link.port}), clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the agent's event loop; return the result of the coroutine."""
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        """Start the agent, and wait until it is ready."""
        self.agent.start()
        await aeventually(self.is_ready)

    async def is_ready(self) -> bool:
        """Return whether the agent is ready."""
        return not await self.agent.waiting_for()

    def die_at(self, fault: Fault) -> None:
        """Cut the link to Ignite at a fault, and then set the event ``dead``."""

        def die() -> None:
            self.link.end()
            self.dead.set()

        self.link.fail(fault, die)

    async def until_dead(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the agent is dead.

        Raises the error of the coroutine, unless the agent is dead.
        """
        doing = asyncio.ensure_future(work)
        dying = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait({doing, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if doing.done() and (error := doing.exception()) and not self.dead.is_set():
            raise error

    def close(self) -> None:
        """Close the agent, unless it is dead."""
        if not self.loop.is_closed():
            self.run(self.agent.close())
            self.die()

    def die(self) -> None:
        """End the agent without closing anything except its tasks."""
        self.link.end()
        self.run(self.link.wait_ended())
        self.run(_cancel_all())
        self.run(self.loop.shutdown_asyncgens())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 10)
