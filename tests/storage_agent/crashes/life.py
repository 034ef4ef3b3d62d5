"""One life of an agent in this process, which a crash ends as kill -9 would."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mistbow.clock import Clock
from mistbow.settings import AgentSettings
from storage_agent.agent import Agent
from tests.storage_agent.crashes.failing_link import FailingLink, Fault
from tests.support.waiting import aeventually

T = TypeVar("T")


class Life:
    """An agent, its link to Ignite and their loop; ended by ``close`` or by ``die``.

    It runs while something else does: its own work goes on inside ``run``.
    """

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self.loop = asyncio.new_event_loop()
        self.dead = asyncio.Event()
        self.link = self.run(FailingLink(settings.ignite_port).start())
        self.agent = Agent(settings.model_copy(update={"ignite_port": self.link.port}), clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something, and whatever else the agent has to do until then."""
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        """Start the agent, and wait until it is ready."""
        self.agent.start()
        await aeventually(self.is_ready)

    async def is_ready(self) -> bool:
        """Tell whether there is nothing that the agent waits for."""
        return not await self.agent.waiting_for()

    def die_at(self, fault: Fault) -> None:
        """Let nothing reach Ignite after a fault; ``dead`` is set then."""

        def die() -> None:
            self.link.end()
            self.dead.set()

        self.link.fail(fault, die)

    async def until_dead(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something until it is done or the agent is dead."""
        doing = asyncio.ensure_future(work)
        dying = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait({doing, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if doing.done() and (error := doing.exception()) and not self.dead.is_set():
            raise error

    def close(self) -> None:
        """End as an agent that is told to, unless it is dead."""
        if not self.loop.is_closed():
            self.run(self.agent.close())
            self.die()

    def die(self) -> None:
        """Leave everything as it is, but for the tasks, which may not outlive the loop."""
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
