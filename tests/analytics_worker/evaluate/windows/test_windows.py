"""Windows computed from panes, at once and by micro-batch, compared with a simple loop."""

import itertools
import math
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.expressions import Source
from analytics.plan.functions import Content
from analytics.plan.nodes import Pane, Plan, Window
from analytics.plan.ticks import DAY_MS, TimeOfDay
from analytics_worker.evaluate.finalize import WINDOWED
from analytics_worker.evaluate.windows import windows as windowing
from analytics_worker.evaluate.windows.retained_panes import RetainedPanes
from analytics_worker.evaluate.windows.windows import (
    EVER,
    NEVER,
    ROUTED_PANES,
    Panes,
    shapes_of,
    windows_of,
)

CONTENTS: tuple[Content, ...] = ("latest", "logs", "moments", "points", "sample")
ORDER = [("tick", "ascending"), ("window", "ascending")]
SHAPES = ((1000, 1000, 0), (3000, 1000, 0), (2000, 4000, 0), (1000, 3000, 2000))


@dataclass(frozen=True)
class Piece:
    """A pane that arrives: its index in the plan, its key, end (ms), due time (ms) and values."""

    route: int
    key: str
    end: int
    due: int
    values: tuple[float, ...]

    @property
    def row(self) -> dict[str, Any]:
        """The pane as a row of ``ROUTED_PANES``."""
        size, total = len(self.values), math.fsum(self.values)
        points = [{"ts": self.end, "value": one, "entity": "e"} for one in self.values]
        numbers = {
            "sum": total,
            "count": size,
            "min": min(self.values, default=math.inf),
            "max": max(self.values, default=-math.inf),
        }
        if self.route:
            return {"route": 1, "key": self.key, "pane": self.end, "due": self.due} | numbers
        drawn = [
            {"ts": self.end, "value": one, "stratum": "s", "chance": 1.0, "lot": 0.5, "seen": 1}
            for one in self.values
        ]
        logs = [math.log(one) for one in self.values if one > 0]
        return {
            "route": 0, "key": self.key, "pane": self.end, "due": self.due, **numbers,
            "moments": math.fsum((one - total / max(size, 1)) ** 2 for one in self.values),
            "logs": math.fsum(logs) if logs else None,
            "latest": max(points, key=lambda one: one["value"], default=None),
            "points": points,
            "sample": drawn,
        }  # fmt: skip


def plan_of(shapes: Iterable[tuple[int, int, int]]) -> Plan:
    """Return a plan of windows over two panes; only the pane ``full`` has contents.

    ``shapes``: (length, interval, offset) in ms of the windows over each pane.
    """
    panes = (
        Pane(id="full", source=Source("m"), by=(), width_ms=1000, contents=CONTENTS),
        Pane(id="bare", source=Source("n"), by=(), width_ms=1000),
    )
    windows = [
        Window(
            id=f"{pane.id}{number}",
            pane=pane.id,
            size_ms=size,
            every_ms=every,
            offset_ms=offset,
            contents=pane.contents[number % 2 :],
        )
        for number, (size, every, offset) in enumerate(shapes)
        for pane in panes
    ]
    return Plan(insights=(), windows=tuple(windows), panes=panes)


def right(pieces: Iterable[Piece], plan: Plan, after: int) -> dict[tuple[int, int, str], Any]:
    """Return the expected windows: (index of window, tick, key) -> merged contents of the panes.

    The result contains only ticks greater than ``after``.
    """
    members: dict[tuple[int, int, str], list[Piece]] = {}
    for piece in pieces:
        for place, window in enumerate(plan.windows):
            if window.pane != plan.panes[piece.route].id:
                continue
            for tick in range(0, 60_000, window.every_ms):
                inside = tick - window.lookback_ms < piece.end <= tick - window.offset_ms
                if inside and tick >= piece.due and tick > after:
                    members.setdefault((place, tick, piece.key), []).append(piece)
    return {identity: _told(some, plan.windows[identity[0]]) for identity, some in members.items()}


def _told(pieces: list[Piece], window: Window) -> dict[str, Any]:
    values = sorted(value for piece in pieces for value in piece.values)
    merged: dict[str, Any] = {
        "sum": math.fsum(values),
        "count": len(values),
        "min": min(values, default=math.inf),
        "max": max(values, default=-math.inf),
    }
    if "latest" in window.contents:
        latest = [(piece.end, max(piece.values)) for piece in pieces if piece.values]
        merged["latest"] = max(latest, default=None)
    if "logs" in window.contents:
        merged["logs"] = math.fsum(math.log(value) for value in values if value > 0)
    if "points" in window.contents:
        merged["points"] = merged["sample"] = values
        merged["moments"] = sorted(len(piece.values) for piece in pieces if piece.values)
    return merged


def contents_of(windows: pa.Table, plan: Plan) -> dict[tuple[int, int, str], Any]:
    """Convert a table of windows (``WINDOWED``) to the form that ``right`` returns."""
    found = {}
    for row in windows.to_pylist():
        identity = (row["window"], row["tick"], row["key"])
        assert identity not in found
        contents = plan.windows[row["window"]].contents
        one = {name: row[name] for name in ("sum", "count", "min", "max")}
        if "latest" in contents:
            latest = row["latest"]
            one["latest"] = latest and (latest["ts"], latest["value"])
        if "logs" in contents:
            one["logs"] = row["logs"]
        if "points" in contents:
            for name in ("points", "sample"):
                one[name] = sorted(point["value"] for point in row[name])
            one["moments"] = sorted(part["count"] for part in row["moments"])
        assert all(row[name] is None for name in CONTENTS if name not in contents)
        found[identity] = one
    return found


def together(parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([WINDOWED.empty_table(), *parts])


_pieces = st.lists(
    st.builds(
        lambda route, key, second, late, values: Piece(
            route, key, 1000 * second, 1000 * (second + late), tuple(values)
        ),
        st.integers(0, 1),
        st.sampled_from("ab"),
        st.integers(1, 12),
        st.sampled_from([0, 0, 1, 5]),
        st.lists(st.integers(-9, 9).map(float), max_size=3),
    ),
    max_size=30,
)
_shapes = st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4)
_after = st.sampled_from([0, 4000])


def same(found: dict[tuple[int, int, str], Any], expected: dict[tuple[int, int, str], Any]) -> bool:
    assert found.keys() == expected.keys()
    for identity, one in expected.items():
        assert found[identity].pop("logs", 0) == pytest.approx(one.pop("logs", 0)), identity
        assert found[identity] == one, identity
    return True


@given(_pieces, _shapes, _after)
def test_window_has_the_panes_within_it(
    pieces: list[Piece], shapes: list[tuple[int, int, int]], after: int
) -> None:
    plan = plan_of(shapes)
    panes = Panes.of(pa.Table.from_pylist([piece.row for piece in pieces], ROUTED_PANES))
    made = shapes_of(plan, {window.id: after for window in plan.windows})
    found = together(windows_of(panes, plan, made, NEVER, EVER))
    assert found.schema == WINDOWED
    assert same(contents_of(found, plan), right(pieces, plan, after))


@given(_pieces, _shapes, _after, st.sets(st.integers(1, 20)), st.integers(0, 9))
def test_any_split_into_micro_batches_yields_the_same_windows(
    pieces: list[Piece],
    shapes: list[tuple[int, int, int]],
    after: int,
    cuts: set[int],
    repeated: int,
) -> None:
    plan = plan_of(shapes)
    made = shapes_of(plan, {window.id: after for window in plan.windows})
    bounds = [0, *sorted(1000 * cut for cut in cuts), 60_000]
    found = [WINDOWED.empty_table()]
    with tempfile.TemporaryDirectory() as folder:
        for batch, (closed, until) in enumerate(itertools.pairwise(bounds)):
            some = [piece.row for piece in pieces if closed < piece.due <= until]
            added = pa.Table.from_pylist(some, ROUTED_PANES)
            # One that fails in the midst of all is done again.
            for _ in range(2 if batch == repeated else 1):
                retained = RetainedPanes(Path(folder), batch)
                assert retained.closed == closed
                panes = Panes.of(pa.concat_tables([retained.panes, added]).combine_chunks())
                windows = together(windows_of(panes, plan, made, closed, until))
                retained.add(added, made, until)
            found.append(windows)
        assert RetainedPanes(Path(folder), len(bounds) - 1).closed == 60_000
    assert same(contents_of(pa.concat_tables(found), plan), right(pieces, plan, after))


def test_too_many_windows_are_yielded_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of([(3000, 1000, 0), (2000, 4000, 0), (1000, 3000, 2000)])
    made = shapes_of(plan, {window.id: 0 for window in plan.windows})
    pieces = [Piece(n % 2, "k", 1000 * n, 1000 * n, (1.0,)) for n in range(1, 30)]
    panes = Panes.of(pa.Table.from_pylist([piece.row for piece in pieces], ROUTED_PANES))
    whole = together(windows_of(panes, plan, made, NEVER, EVER))
    monkeypatch.setattr(windowing, "_MAX_MEMBERS", 20)
    parts = list(windows_of(panes, plan, made, NEVER, EVER))
    assert together(parts).sort_by(ORDER).to_pylist() == whole.sort_by(ORDER).to_pylist()
    ticks = [set(part["tick"].to_pylist()) for part in parts]
    assert all(max(one) < min(other) for one, other in itertools.pairwise(ticks))
    # A pane of the first kind is one row, one point and one of a sample.
    weights = [
        sum(row["count"] * (1 if row["window"] % 2 else 3) for row in part.to_pylist())
        for part in parts
    ]
    assert all(weight <= 20 or len(of) == 1 for weight, of in zip(weights, ticks, strict=True))
    assert len(parts) > 5


def test_retained_panes_are_in_few_files_and_needed(tmp_path: Path) -> None:
    plan = plan_of([(3000, 1000, 0)])
    made = shapes_of(plan, {window.id: 0 for window in plan.windows})
    for batch in range(100):
        tick = 1000 * (batch + 1)
        added = pa.Table.from_pylist([Piece(1, "k", tick, tick, (1.0,)).row], ROUTED_PANES)
        retained = RetainedPanes(tmp_path, batch)
        retained.add(added, made, tick)
    assert len(list(tmp_path.iterdir())) <= 65
    assert RetainedPanes(tmp_path, 100).panes["pane"].to_pylist()[-2:] == [99_000, 100_000]
    assert RetainedPanes(tmp_path, 100).panes.num_rows <= 35


def test_micro_batch_without_the_file_of_the_one_before_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RetainedPanes(tmp_path, 3)


def test_time_of_day_has_a_shape_for_each_offset_of_the_zone() -> None:
    at = TimeOfDay(3_600_000, "Europe/Athens")
    pane = Pane(id="p", source=Source("m"), by=(), width_ms=3_600_000)
    window = Window(id="w", pane="p", size_ms=DAY_MS, every_ms=DAY_MS, at=at)
    made = shapes_of(Plan(insights=(), windows=(window,), panes=(pane,)), {"w": 0})
    assert sorted(shape.phase for shape in made) == [22 * 3_600_000, 23 * 3_600_000]
