"""Senders of small bodies, which repeat each body with its key until it is acknowledged."""

import random
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Self

import httpx
import pyarrow as pa
import stamina

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import LostDataError, StorageFullError, UnavailableError
from tests.storage_agent.crashes.ledger import Body, Ledger, check
from tests.support.conditions import eventually

_METRICS = 4
# More would only delay the restart of what was killed.
_PAUSE_S = 0.01
_ANSWERED_S = 120.0
"""The time (s) for which a check is repeated while the agent is unavailable."""

_SPOOLED = "mistbow_agent_spooled_bodies"
_NUMBERS = pa.schema([pa.field("number", pa.int64(), nullable=False)])

_SENT_AT: dict[str, int] = {}
"""Key of a body -> the time (ms) at which the body was first sent."""

Send = Callable[[AgentClient, Body], object]


def put(client: AgentClient, body: Body) -> None:
    """Send the numbers of a body as points with the time at which the body is first sent."""
    # A repeated request has the same body, or its key is refused.
    now = _SENT_AT.setdefault(body.key, system_clock())
    points = [
        Point(f"m{number % _METRICS}", body.source, now, float(number))
        for number in range(body.first, body.next)
    ]
    client.put(points, idempotency_key=body.key)


def append(client: AgentClient, body: Body) -> None:
    """Send the numbers of a body as rows of the stream that is named after the body's source."""
    rows = pa.table({"number": range(body.first, body.next)}, _NUMBERS)
    if body.first == 0:
        client.create_stream(body.source, _NUMBERS)
    client.append(body.source, rows, idempotency_key=body.key)


def _is_drained(http: httpx.Client) -> bool:
    return f"{_SPOOLED} 0.0" in http.get("/metrics").text.splitlines()


def _is_away(error: Exception) -> bool:
    if isinstance(error, LostDataError):
        return False
    return isinstance(error, UnavailableError | httpx.TransportError)


class Load:
    """Threads that send numbers to an agent until they are stopped.

    ``points``: the number of threads that send points by /put; ``streams``: the number of threads
    that append rows, each to its own stream; ``most``: the maximum size of a body. After an error,
    a thread repeats the body, or abandons it with the probability 1 / ``patience`` (0: never). The
    test cannot determine whether an abandoned body is stored.
    """

    def __init__(
        self, url: str, *, points: int = 3, streams: int = 1, most: int = 5, patience: int = 4
    ) -> None:
        self.ledger = Ledger()
        self.refusals = 0
        self._url = url
        self._most = most
        self._patience = patience
        self._stopped = threading.Event()
        self._broken = threading.Event()
        self._errors: list[Exception] = []
        name = uuid.uuid4().hex[:6]
        senders: list[tuple[str, Send]] = [(f"{name}-{i}", put) for i in range(points)]
        senders += [(f"{name}/{i}", append) for i in range(streams)]
        self._threads = [
            threading.Thread(target=self._run, args=each, daemon=True) for each in senders
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._broken.set()
        self.stop()

    def stop(self) -> None:
        """Stop each thread after its current body; check that no thread has failed."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)
        if not self._broken.is_set():
            assert not any(thread.is_alive() for thread in self._threads)
            assert not self._errors

    def progress(self, by: int = 20) -> None:
        """Wait until ``by`` more bodies are acknowledged."""
        goal = len(self.ledger) + by
        eventually(
            lambda: self._errors or len(self.ledger) >= goal, timeout=120, what="more progress"
        )
        assert not self._errors

    def check(self, url: str | None = None, *, within: float = 0.0) -> int:
        """Check that acknowledged data is stored exactly once; return how many numbers are stored.

        If numbers are missing, the check is repeated for up to ``within`` seconds, because the
        agent may still store points from its spool. With 0, all numbers must be stored already.
        """
        url = url or self._url
        due = self.ledger.acknowledged
        assert due
        client = AgentClient(url)
        with closing(client), httpx.Client(base_url=url, timeout=10) as http:

            @stamina.retry(on=_is_away, attempts=None, timeout=_ANSWERED_S, wait_max=1.0)
            def stored() -> int:
                return _is_drained(http) and check(self.ledger, client, due)

            return eventually(stored, timeout=within)

    def _run(self, source: str, send: Send) -> None:
        client = AgentClient(self._url)
        chance = random.Random(source)  # noqa: S311 - the source is in what fails
        try:
            number = 0
            while not self._stopped.wait(_PAUSE_S):
                body = Body(source, number, number + chance.randint(1, self._most))
                self._insist(client, body, send, chance)
                number = body.next
        except Exception as error:
            self._errors.append(error)
        finally:
            client.close()

    def _insist(self, client: AgentClient, body: Body, send: Send, chance: random.Random) -> None:
        self.ledger.send(body)
        while not self._broken.is_set():
            try:
                send(client, body)
            except (UnavailableError, StorageFullError):
                self.refusals += 1
                # The first makes the stream, so it has to be.
                if body.first and self._patience and not chance.randrange(self._patience):
                    return
            else:
                self.ledger.acknowledge(body)
                return
