"""Windows of points, computed without Spark."""

import math
from collections import defaultdict
from typing import Any

import pyarrow as pa

from analytics.plan.nodes import Plan
from analytics_worker.evaluate.finalize import WINDOWED
from analytics_worker.panes.routing import route


def windows_of(points: pa.RecordBatch, plan: Plan) -> pa.Table:
    """Return the windows (``WINDOWED``) of a plan that contain at least one of the points."""
    return windows_of_routed(route(points, plan.panes), plan)


def windows_of_routed(routed: pa.Table, plan: Plan) -> pa.Table:
    """Return the windows (``WINDOWED``) of a plan that contain at least one row (``ROUTED``)."""
    pane_rows: dict[tuple[int, int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in routed.to_pylist():
        for place, window in enumerate(plan.windows):
            if plan.panes[row["route"]].id == window.pane:
                shifted = row["ts"] + window.offset_ms
                for phase in window.ticks.phases:
                    first = shifted + (phase - shifted) % window.every_ms
                    last = shifted + window.span_ms + window.held_ms
                    for tick in range(first, last, window.every_ms):
                        end = tick - tick % window.held_ms if window.held_ms else tick
                        if shifted <= end < shifted + window.span_ms:
                            pane_rows[place, tick, row["key"]].append(row)
    return pa.Table.from_pylist(
        [_window(place, rows) for place, rows in pane_rows.items()], WINDOWED
    )


def _window(place: tuple[int, int, str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    drawn = [row for row in rows if row["draw"]]
    sample = [{**row["draw"], "ts": row["ts"], "value": row["value"]} for row in drawn]
    rows = [row for row in rows if row["value"] is not None]
    values = [row["value"] for row in rows]
    points = [{name: row[name] for name in ("ts", "value", "entity")} for row in rows]
    mean = math.fsum(values) / max(len(values), 1)
    away = math.fsum((value - mean) ** 2 for value in values)
    return {
        **dict(zip(("window", "tick", "key"), place, strict=True)),
        "sum": math.fsum(values),
        "count": len(values),
        "min": min(values, default=math.inf),
        "max": max(values, default=-math.inf),
        "moments": [{"count": len(values), "sum": math.fsum(values), "moments": away}],
        "logs": math.fsum(math.log(value) for value in values if value > 0),
        "latest": max(points, key=lambda point: (point["ts"], point["value"]), default=None),
        "points": points,
        "sample": sample,
    }
