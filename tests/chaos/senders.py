"""Senders of points and rows at each site, with a ledger of what the agents acknowledged."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import stamina

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import LostDataError, StorageFullError, UnavailableError
from tests.chaos.fog import SITES, ChaosFog
from tests.storage_agent.crashes.ledger import Body, Ledger

METRIC = "hits"
AHEAD_MS = 600_000
"""How far (ms) the clock of a sender is ahead while this fault lasts."""

_NUMBERS = pa.schema([pa.field("number", pa.int64(), nullable=False)])
_PAUSE_S = 0.3
_MAX_BODY = 6
_DISORDER_MS = 600
_LATE_MS = 5000
_LATE_EVERY = 40
_END_S = 120.0
"""The time (s) after the end within which the last requests must be acknowledged."""

_JOIN_S = 60.0

Send = Callable[[AgentClient], object]
"""A function that sends the request of a body, which can be repeated."""

Prepare = Callable[[Body, random.Random], Send]


class SiteSender:
    """Sends numbers in ascending order as points, and as rows of a stream, to the agent of a site.

    Each request is repeated with its idempotency key until the agent acknowledges it. A point has
    the number as its value; some points are late.
    """

    def __init__(self, fog: ChaosFog, site: str, seed: int) -> None:
        self.ledger = Ledger()
        self.ahead: set[Body] = set()
        """The bodies with points of the future."""
        self.entity = f"{site}-1"
        self.stream = f"app/{site}"
        self.clock_ahead_ms = 0
        self._fog = fog
        self._site = site
        self._seed = seed
        self._stopped = threading.Event()
        self._deadline = float("inf")
        self._errors: list[Exception] = []
        works: list[tuple[str, Prepare]] = [(self.entity, self._points), (self.stream, self._rows)]
        self._threads = [
            threading.Thread(target=self._run, args=work, daemon=True) for work in works
        ]

    def start(self) -> None:
        """Start to send."""
        for thread in self._threads:
            thread.start()

    def ask_to_stop(self) -> None:
        """Stop after the current requests, once the agent has acknowledged them."""
        self._deadline = time.monotonic() + _END_S
        self._stopped.set()

    def wait(self) -> None:
        """Wait for the end; raises the error of a request that must not fail."""
        for thread in self._threads:
            thread.join(_END_S + _JOIN_S)
        if self._errors:
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in self._threads), f"{self.entity} hangs"

    def _run(self, source: str, prepare: Prepare) -> None:
        chance = random.Random(f"{self._seed}/{source}")  # noqa: S311 - reproducible by design
        number = 0
        try:
            with self._fog.agent(self._site) as client:
                while not self._stopped.wait(_PAUSE_S):
                    body = Body(source, number, number + chance.randint(1, _MAX_BODY))
                    self._insist(client, body, prepare(body, chance))
                    number = body.next
        except Exception as error:
            self._errors.append(error)

    def _insist(self, client: AgentClient, body: Body, send: Send) -> None:
        self.ledger.send(body)
        for attempt in stamina.retry_context(
            on=_is_temporary, attempts=None, timeout=None, wait_initial=0.1, wait_max=0.5
        ):
            with attempt:
                assert time.monotonic() < self._deadline, (
                    f"the agent of {self._site} did not acknowledge {body.key} within {_END_S} s"
                )
                send(client)
        self.ledger.acknowledge(body)

    def _points(self, body: Body, chance: random.Random) -> Send:
        now = system_clock() + self.clock_ahead_ms
        if self.clock_ahead_ms:
            self.ahead.add(body)
        points = [
            Point(METRIC, body.source, now - _age(number, chance), float(number))
            for number in range(body.first, body.next)
        ]
        return lambda client: client.put(points, idempotency_key=body.key)

    def _rows(self, body: Body, _: random.Random) -> Send:
        rows = pa.table({"number": range(body.first, body.next)}, _NUMBERS)

        def send(client: AgentClient) -> None:
            if body.first == 0:
                client.create_stream(body.source, _NUMBERS)
            client.append(body.source, rows, idempotency_key=body.key)

        return send


def _age(number: int, chance: random.Random) -> int:
    return _LATE_MS if number % _LATE_EVERY == 0 else chance.randrange(_DISORDER_MS)


@contextmanager
def sending(fog: ChaosFog, seed: int) -> Iterator[dict[str, SiteSender]]:
    """Send to all sites until ``stop``, or to the end of the ``with``; yield site -> sender."""
    senders = {site: SiteSender(fog, site, seed) for site in SITES}
    for sender in senders.values():
        sender.start()
    try:
        yield senders
    finally:
        for sender in senders.values():
            sender.ask_to_stop()


def stop(senders: Iterable[SiteSender]) -> None:
    """Stop senders, and wait until all requests are acknowledged."""
    stopped = list(senders)
    for sender in stopped:
        sender.ask_to_stop()
    for sender in stopped:
        sender.wait()


def _is_temporary(error: Exception) -> bool:
    if isinstance(error, LostDataError):
        return False
    return isinstance(error, UnavailableError | StorageFullError)
