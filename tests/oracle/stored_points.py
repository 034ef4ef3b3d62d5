"""The oracle over the points that storage agents have stored."""

import json

import msgspec
import pyarrow as pa

from mistbow.client.agent import AgentClient
from tests.oracle.sql import POINTS, answers, opened

Identity = tuple[str, str, int]
"""The identity of a result: insight, key as compact JSON, tick (ms)."""


def stored_points(agent: AgentClient, metric: str) -> pa.Table:
    """Return every point of a metric (``POINTS``), as ``/get`` returns them."""
    rows = [
        {
            "metric": metric,
            "entity": series.entity,
            "attributes": json.dumps({"entityID": series.entity, "group": series.group}),
            "ts": point.ts,
            "value": point.value,
            "horizon": 0,
        }
        for node in agent.get(metric=metric, latest=False)
        for series in node.data
        for point in series.values
    ]
    return pa.Table.from_pylist(rows, POINTS)


def expected_values(text: str, points: pa.Table, since: int, until: int) -> dict[Identity, float]:
    """Return the value of each insight of a text at each tick after ``since`` up to ``until`` (ms).

    Late points count in all of their windows too, so the values are those of the last revisions.
    """
    with opened(points) as connection:
        found = answers(text, connection, since, until)
    return {
        (insight, compact_key(json.loads(key)), tick): answer.value
        for (insight, key, tick), answer in found.items()
        if isinstance(answer.value, float)
    }


def compact_key(key: object) -> str:
    """Return a key as compact JSON, sorted by the names of attributes."""
    return msgspec.json.encode(key, order="sorted").decode()
