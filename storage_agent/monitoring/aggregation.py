"""Answering a /query: each site sums its own values up, and only the sums cross."""

import math
from collections.abc import Collection, Iterable

import msgspec
import pyarrow.compute as pc

from mistbow.errors import InvalidRequestError
from storage_agent.fabric.gathering import Missing, Question, Replicas, Source, ask
from storage_agent.fabric.member import Member
from storage_agent.monitoring.bodies import QueryBody
from storage_agent.monitoring.catalogue import Catalogue, Series
from storage_agent.monitoring.extraction import chosen, times_of
from storage_agent.monitoring.history import History


class Sums(msgspec.Struct, frozen=True):
    """What values come to; without any, ``min`` and ``max`` are None.

    A ``sum`` of None is beyond what a number can be. ``missing``: what could not be read;
    ``replicas``: what was read in place of its node.
    """

    count: int = 0
    sum: float | None = 0.0
    min: float | None = None
    max: float | None = None
    missing: tuple[Missing, ...] = ()
    replicas: tuple[Source, ...] = ()


class _Value(msgspec.Struct, frozen=True, omit_defaults=True):
    value: float | None
    replicas: tuple[Source, ...] = ()
    missing: tuple[Missing, ...] = ()


_SUMS = msgspec.json.Decoder(Sums)


class Aggregation:
    """Aggregates what is stored on this node."""

    def __init__(self, node: str, catalogue: Catalogue, history: History) -> None:
        self._node = node
        self._catalogue = catalogue
        self._history = history

    async def sums(self, body: QueryBody) -> Sums:
        """Return what the values of this node that a body asks for come to."""
        wanted = chosen(self._catalogue, body)
        times = times_of(body)
        if times is None:
            latest = (self._catalogue.latest(series) for series in wanted)
            return merged(Sums(1, each.value, each.value, each.value) for each in latest if each)
        lost: list[str] = []
        found = await sums_between(self._history, wanted, *times, missing=lost)
        missing = tuple(Missing(self._node, reason) for reason in lost)
        return msgspec.structs.replace(found, missing=missing)


async def sums_between(
    history: History,
    series: Collection[Series],
    start: int,
    end: int,
    missing: list[str] | None = None,
) -> Sums:
    """Return what the values of series with ``start <= ts <= end`` (ms) come to."""
    found = Sums()
    parts = history.batches(series, start, end, columns=("value",), missing=missing)
    async for part in parts:
        if part.num_rows:
            ends = pc.min_max(part["value"]).as_py()
            sums = Sums(part.num_rows, pc.sum(part["value"]).as_py(), ends["min"], ends["max"])
            found = merged((found, sums))
    return found


async def query(body: QueryBody, member: Member, here: Aggregation, replicas: Replicas) -> bytes:
    """Return the JSON answer of the nodes that a body names, or else of this one."""
    missing: tuple[Missing, ...] = ()
    if body.nodes is None:
        sums = await here.sums(body)
        missing = sums.missing
    else:
        alone = msgspec.structs.replace(body, nodes=None)

        async def parts() -> bytes:
            return msgspec.json.encode(await here.sums(alone))

        content, stand_in = msgspec.json.encode(alone), replicas.stand_in(alone)
        question = Question("/query/parts", content, parts, _SUMS.decode, stand_in)
        answers = await ask(body.nodes, member, question)
        sums = merged(answers.found)
        missing = (*sums.missing, *answers.missing)
    value = value_of(sums, body.agg)
    return msgspec.json.encode(_Value(value, sums.replicas, missing))


def merged(parts: Iterable[Sums]) -> Sums:
    """Return what the values of all parts come to.

    >>> merged([Sums(1, 2.0, 2.0, 2.0), Sums(), Sums(2, 9.0, 4.0, 5.0)])
    Sums(count=3, sum=11.0, min=2.0, max=5.0, missing=(), replicas=())
    """
    parts = tuple(parts)
    filled = [part for part in parts if part.count]
    total = sum(math.inf if part.sum is None else part.sum for part in filled)
    return Sums(
        sum(part.count for part in filled),
        total if math.isfinite(total) else None,
        min((part.min for part in filled if part.min is not None), default=None),
        max((part.max for part in filled if part.max is not None), default=None),
        tuple(each for part in parts for each in part.missing),
        tuple(each for part in parts for each in part.replicas),
    )


def value_of(sums: Sums, agg: str) -> float | None:
    """Return one aggregate; None if there are no values."""
    if sums.count == 0:
        return None
    if agg in ("min", "max"):
        return sums.min if agg == "min" else sums.max
    if sums.sum is None:
        raise InvalidRequestError(
            "the sum of these values is beyond what a number can be",
            hint="Ask for less time, or fewer metrics and entities.",
        )
    return sums.sum if agg == "sum" else sums.sum / sums.count
