"""Greeting the other sites' agents, each second, and each by itself."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import httpx
import msgspec

from mistbow.errors import ConflictError, MistbowError
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric.greeting import Greeting, check_greeting
from storage_agent.fabric.neighbours import Neighbours
from storage_agent.fabric.network import CONNECT_S, Network, count, error_of
from storage_agent.monitoring.bodies import read_body

log = get_logger(__name__)

GREETING = msgspec.json.Decoder(Greeting)

_EVERY_S = 1.0
_ANSWER_S = 2.0


class Greeter:
    """Keeps ``neighbours`` true; ``listener`` is called after each greeting."""

    def __init__(
        self, neighbours: Neighbours, network: Network, listener: Callable[[], None]
    ) -> None:
        self._neighbours = neighbours
        self._network = network
        self._listener = listener
        self._on_way: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Greet for ever."""
        try:
            while True:
                for address in self._neighbours.addresses():
                    self.greet(address)
                await asyncio.sleep(_EVERY_S)
        finally:
            await end(self._on_way.values())

    def greet(self, address: str) -> None:
        """Greet an agent now, unless a greeting is on its way."""
        if address not in self._on_way:
            task = asyncio.create_task(self._greet(address), name=f"greeting of {address}")
            self._on_way[address] = task
            task.add_done_callback(lambda _: self._on_way.pop(address, None))

    async def _greet(self, address: str) -> None:
        try:
            # The first round trip of a connection is several.
            known = self._network.is_dialled(address)
            begin = time.perf_counter()
            async with asyncio.timeout(_ANSWER_S):
                greeting = await self._ask(address)
            trip_ms = (time.perf_counter() - begin) * 1000
            self._neighbours.answered(address, greeting, trip_ms if known else None)
        except (httpx.HTTPError, RuntimeError, TimeoutError, MistbowError) as error:
            if isinstance(error, ConflictError):
                log.error("not greeted as this site", address=address, error=error.message)
            self._neighbours.failed(address)
            with contextlib.suppress(Exception):
                await self._network.drop(address)
        except Exception as error:
            log.error("a greeting failed", address=address, exc_info=error)
            self._neighbours.failed(address)
        self._listener()

    async def _ask(self, address: str) -> Greeting:
        said = msgspec.json.encode(self._neighbours.greeting())
        response = await self._network.client(address).post(
            "/fabric/greet",
            content=said,
            headers={"Content-Type": "application/json"},
            timeout=httpx.Timeout(_ANSWER_S, connect=CONNECT_S),
        )
        if not response.is_success:
            raise error_of(response.status_code, response.content)
        greeting = read_body(GREETING, response.content)
        check_greeting(greeting)
        if self._neighbours.get(greeting.site) is not None:
            count(greeting.site, "sent", "greeting", len(said))
            count(greeting.site, "received", "greeting", len(response.content))
        return greeting
