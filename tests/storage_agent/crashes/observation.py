"""An observation of an agent: its answers to every kind of read."""

from dataclasses import dataclass
from itertools import pairwise

import msgspec

from mistbow.errors import NotFoundError
from mistbow.streams.schemas import RAW
from storage_agent.agent.agent import Agent
from storage_agent.http.points import GetBody
from storage_agent.records.bodies import RecordReadBody
from storage_agent.streams.log import StreamLog
from storage_agent.streams.subscription import RowSelection, RowSelector, read

Series = tuple[str, str]
Record = tuple[int, int]
"""A record: time (ms) and value."""

WORD = "analytics"
STREAMS = ("one", "two")


@dataclass(frozen=True, slots=True)
class ObservedStream:
    """A stream: the values of its rows, its head and its frontier."""

    values: list[int]
    head: int
    frontier: int


@dataclass(frozen=True, slots=True)
class Observation:
    """An agent's answers to all reads at one time.

    ``latest``: series -> time (ms), value and metadata. ``last``: key -> time (ms) and value of the
    latest record. ``gaps``: the streams in which positions are missing.
    """

    points: list[tuple[Series, int, float]]
    raw: list[tuple[Series, int, float]]
    raw_frontier: int
    latest: dict[Series, tuple[int, float, str]]
    records: dict[tuple[str, int], int]
    last: dict[str, Record]
    streams: dict[str, ObservedStream | None]
    retention_ms: int | None
    gaps: list[str]

    @classmethod
    async def by(cls, agent: Agent) -> "Observation":
        """Return an agent's answers to all reads."""
        raw, raw_frontier = await _raw(agent)
        logs = [stream.log for stream in agent.streams.all()]
        return cls(
            points=await _points(agent),
            raw=raw,
            raw_frontier=raw_frontier,
            latest=await _latest(agent),
            records={
                (key, value["timestamp"]): value["val"]
                for key, values in (await _records(agent, RecordReadBody(latest=False))).items()
                for value in values
            },
            last={
                key: (value["timestamp"], value["val"])
                for key, [value] in (await _records(agent, RecordReadBody())).items()
            },
            streams={name: await _stream(agent, name) for name in STREAMS},
            retention_ms=agent.config.current.retention_ms,
            gaps=[log.name for log in logs if _has_gaps(log)],
        )


async def _points(agent: Agent) -> list[tuple[Series, int, float]]:
    answer = msgspec.json.decode(await agent.get(GetBody(latest=False)))
    found = []
    for series in answer["monitoring"][0]["data"]:
        times = [value["timestamp"] for value in series["values"]]
        assert times == sorted(times)
        named = series["metricID"], series["entityID"]
        found += [(named, value["timestamp"], value["val"]) for value in series["values"]]
    return found


async def _raw(agent: Agent) -> tuple[list[tuple[Series, int, float]], int]:
    """Return the rows of ``raw`` as (series, time in ms, value), and the frontier at the head.

    Raises ``AssertionError`` if a frontier is smaller than an earlier frontier.
    """
    stream = await agent.streams.get(RAW)
    rows, frontier, number = [], 0, 0
    async for chunk in read(stream.log, RowSelector(stream, RowSelection()), 0):
        rows += chunk.rows.select(["metric", "entity", "ts", "value"]).to_pylist()
        assert chunk.position.frontier >= frontier
        assert chunk.position.next >= number
        frontier, number = chunk.position.frontier, chunk.position.next
    found = [((row["metric"], row["entity"]), row["ts"], row["value"]) for row in rows]
    return found, frontier


async def _latest(agent: Agent) -> dict[Series, tuple[int, float, str]]:
    answer = msgspec.json.decode(await agent.get(GetBody()))
    found = {}
    for series in answer["monitoring"][0]["data"]:
        [value] = series["values"]
        observed = value["timestamp"], value["val"], series.get("desc", "")
        found[series["metricID"], series["entityID"]] = observed
    return found


async def _records(agent: Agent, body: RecordReadBody) -> dict[str, list[dict[str, int]]]:
    answer = msgspec.json.decode(await agent.records.get(WORD, body))
    return {each["key"]: each["values"] for each in answer[WORD]}


async def _stream(agent: Agent, name: str) -> ObservedStream | None:
    try:
        stream = await agent.streams.get(name)
    except NotFoundError:
        return None
    values = []
    async for chunk in read(stream.log, RowSelector(stream, RowSelection()), 0):
        values += chunk.rows["number"].to_pylist()
    return ObservedStream(values, stream.log.head, stream.log.frontier)


def _has_gaps(log: StreamLog) -> bool:
    entries = [log.index[number] for number in range(len(log.index))]
    return any(one.next != other.first for one, other in pairwise(entries))
