"""A ledger of sent and acknowledged bodies of requests, for comparison with the stored data."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import pytest

from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RAW

Item = tuple[str, int]
"""A source, and a number that the source sent as the value of a point or as a row of a stream."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Body:
    """The body of one request: the numbers of a source from ``first`` to ``next`` - 1."""

    source: str
    first: int
    next: int

    @property
    def key(self) -> str:
        """The idempotency key of the request."""
        return f"{self.source}/{self.first}"

    @property
    def items(self) -> list[Item]:
        """The numbers of the body, each with its source."""
        return [(self.source, number) for number in range(self.first, self.next)]


class Ledger:
    """The bodies that were sent, and the acknowledged bodies; threads can share a ledger."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: list[Body] = []
        self._acknowledged: list[Body] = []

    def __len__(self) -> int:
        return len(self._acknowledged)

    def send(self, body: Body) -> None:
        """Record a body that a sender begins to send: the body may be stored from now on."""
        with self._lock:
            self._sent.append(body)

    def acknowledge(self, body: Body) -> None:
        """Record an acknowledged body: the body must be stored from now on."""
        with self._lock:
            self._acknowledged.append(body)

    @property
    def sent(self) -> list[Body]:
        """All bodies that were sent."""
        with self._lock:
            return list(self._sent)

    @property
    def acknowledged(self) -> list[Body]:
        """All bodies that were acknowledged."""
        with self._lock:
            return list(self._acknowledged)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The errors in the stored data: numbers with their sources.

    ``missing``: acknowledged, but not stored; ``doubled``: stored more than once; ``unknown``:
    stored, but never sent; ``torn``: stored, although other numbers of the same body are not
    stored.
    """

    missing: tuple[Item, ...]
    doubled: tuple[Item, ...]
    unknown: tuple[Item, ...]
    torn: tuple[Item, ...]

    @classmethod
    def of(
        cls, stored: Counter[Item], acknowledged: Iterable[Body], sent: Collection[Body]
    ) -> Self:
        """Compare the stored data with the sent and the acknowledged bodies; return the errors.

        ``stored``: number -> how often the number is stored. A body that was not acknowledged may
        be stored once as a whole, or not at all.
        """
        due = {item for body in acknowledged for item in body.items}
        known = {item for body in sent for item in body.items}
        halves = (
            part
            for body in sent
            if 0 < len(part := [item for item in body.items if item in stored]) < len(body.items)
        )
        return cls(
            missing=tuple(sorted(due - stored.keys())),
            doubled=tuple(sorted(item for item, times in stored.items() if times > 1)),
            unknown=tuple(sorted(stored.keys() - known)),
            torn=tuple(item for part in halves for item in part),
        )

    def __str__(self) -> str:
        found = {name: getattr(self, name) for name in self.__slots__}
        return "; ".join(f"{len(of)} {name}, as {of[:_SHOWN]}" for name, of in found.items() if of)


def check(ledger: Ledger, client: AgentClient, due: Sequence[Body]) -> int:
    """Check the numbers that each way of reading returns; return how many numbers are stored.

    ``due``: the bodies that must be stored. Raises ``AssertionError`` if a number of ``due`` is
    missing, so that a caller can repeat the check. Fails the test at once if a number is stored
    twice, if a body is stored in part, or if a stored number was never sent.
    """
    points = {body.source for body in ledger.sent if "/" not in body.source}
    streams = {body.source for body in due} - points
    stored = {
        "/get": (_by_get(client, points), points),
        "raw": (_by_raw(client, points), points),
        "streams": (_by_streams(client, streams), streams),
    }
    sent = ledger.sent
    verdicts = {
        way: Verdict.of(items, _of(due, sources), _of(sent, sources))
        for way, (items, sources) in stored.items()
    }
    report = "\n".join(f"by {way}: {verdict}" for way, verdict in verdicts.items() if str(verdict))
    if any(each.doubled or each.unknown or each.torn for each in verdicts.values()):
        pytest.fail(report)
    assert not report, report
    return len(stored["raw"][0]) + len(stored["streams"][0])


def _of(bodies: Iterable[Body], sources: Collection[str]) -> list[Body]:
    return [body for body in bodies if body.source in sources]


def _by_get(client: AgentClient, sources: Collection[str]) -> Counter[Item]:
    found: Counter[Item] = Counter()
    if sources:
        [node] = client.get(entity=sorted(sources), latest=False)
        for series in node.data:
            found.update((series.entity, int(value.value)) for value in series.values)
    return found


def _by_raw(client: AgentClient, sources: Collection[str]) -> Counter[Item]:
    table = client.read(RAW, columns=["entity", "value"]).table
    pairs = zip(table["entity"].to_pylist(), map(int, table["value"].to_pylist()), strict=True)
    return Counter(pair for pair in pairs if pair[0] in sources)


def _by_streams(client: AgentClient, sources: Collection[str]) -> Counter[Item]:
    found: Counter[Item] = Counter()
    for source in sources:
        numbers = client.read(source).table["number"].to_pylist()
        found.update((source, number) for number in numbers)
    return found
