"""Tables of values by key and time, and plain computations over points."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

from tests.analytics_worker.conformance.independent.points import END, MINUTE, Point

Key = tuple[object, ...]
Table = dict[tuple[Key, int], object]


def ticks(every: int) -> list[int]:
    """Return the multiples of EVERY since the epoch in the time of the city."""
    return list(range(every, END + 1, every))


def keyed(points: Iterable[Point], by: tuple[str, ...]) -> dict[Key, list[Point]]:
    """Return the points of each combination of values of the attributes."""
    groups: dict[Key, list[Point]] = defaultdict(list)
    for point in points:
        groups[tuple(point.get(name) for name in by)].append(point)
    return groups


def over(
    points: list[Point],
    f: Callable[[list[float]], object],
    window: int,
    every: int,
    by: tuple[str, ...] = (),
    offset: int = 0,
) -> Table:
    """Return an aggregate at each tick t over the points in (t - window - offset, t - offset]."""
    table: Table = {}
    for key, group in keyed(points, by).items():
        for t in ticks(every):
            values = [p.value for p in group if t - offset - window < p.ts <= t - offset]
            result = f(values) if values else None
            if result is not None:
                table[key, t] = result
    return table


def latest(
    points: list[Point], every: int, by: tuple[str, ...] = ()
) -> dict[tuple[Key, int], Point]:
    """Return the latest point of each key in the last minute, rounded up to a multiple of EVERY."""
    window = -(-MINUTE // every) * every
    table = {}
    for key, group in keyed(points, by).items():
        for t in ticks(every):
            recent = [p for p in group if t - window < p.ts <= t]
            if recent:
                table[key, t] = max(recent, key=lambda p: (p.ts, p.value))
    return table


def current(points: list[Point], every: int, by: tuple[str, ...] = ()) -> Table:
    """Return the current value: the latest of the last minute."""
    return {at: p.value for at, p in latest(points, every, by).items()}


def spans(
    points: list[Point], f: Callable[[list[float]], object], n: int, by: tuple[str, ...] = ()
) -> Table:
    """Aggregate the points of a key since its previous value, at every n-th point."""
    table: Table = {}
    for key, group in keyed(points, by).items():
        count, span = 0, []
        for ts in sorted({p.ts for p in group}):
            here = [p.value for p in group if p.ts == ts]
            span += here
            if (count + len(here)) // n > count // n:
                result = f(span)
                if result is not None:
                    table[key, ts] = result
                span = []
            count += len(here)
    return table


def where(table: Table, keep: Callable[[Key, int, object], bool]) -> Table:
    """Return the entries that satisfy a condition."""
    return {(key, t): value for (key, t), value in table.items() if keep(key, t, value)}


def both(left: Table, right: Table, f: Callable[[float, float], object]) -> Table:
    """Join two tables by key and tick; the shorter key must be the beginning of the longer key."""
    table: Table = {}
    for (a, t), x in left.items():
        for (b, u), y in right.items():
            if t == u and a[: len(b)] == b[: len(a)]:
                result = f(x, y)  # type: ignore[arg-type]
                if result is not None:
                    table[max(a, b, key=len), t] = result
    return table


def ratio(x: float, y: float) -> float | None:
    """Divide; nothing for a division by zero."""
    return x / y if y else None


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def sdev(values: list[float]) -> float:
    middle = mean(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / len(values))


def percentile(p: float) -> Callable[[list[float]], float]:
    """Return a percentile with linear interpolation."""

    def f(values: list[float]) -> float:
        ordered = sorted(values)
        at = (len(ordered) - 1) * p / 100
        low = math.floor(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    return f


median = percentile(50)


def reduced(table: Table, f: Callable[[list[float]], object], keep: int = 0) -> Table:
    """Reduce the values of several keys at each tick to the first `keep` attributes of the keys."""
    groups: dict[tuple[Key, int], list[float]] = defaultdict(list)
    for (key, t), value in table.items():
        groups[key[:keep], t].append(value)  # type: ignore[arg-type]
    return {at: f(values) for at, values in groups.items()}


def of_ticks(
    table: Table,
    f: Callable[[list[float]], object],
    window: int,
    every: int,
    keep: int | None = None,
) -> Table:
    """Compute a function of the values at the ticks in (t - window, t], in their order."""
    groups: dict[Key, list[tuple[int, float]]] = defaultdict(list)
    for (key, t), value in table.items():
        groups[key if keep is None else key[:keep]].append((t, value))  # type: ignore[arg-type]
    out: Table = {}
    for key, entries in groups.items():
        for t in ticks(every):
            values = [v for u, v in sorted(entries) if t - window < u <= t]
            result = f(values) if values else None
            if result is not None:
                out[key, t] = result
    return out


def pearson(pairs: list[tuple[float, float]]) -> float | None:
    """Return Pearson's correlation; nothing if one side does not vary."""
    if len(pairs) < 2:
        return None
    a, b = mean([x for x, _ in pairs]), mean([y for _, y in pairs])
    up = math.fsum((x - a) * (y - b) for x, y in pairs)
    down = math.sqrt(
        math.fsum((x - a) ** 2 for x, _ in pairs) * math.fsum((y - b) ** 2 for _, y in pairs)
    )
    return up / down if down > 1e-12 else None


def correlated(left: Table, right: Table, window: int, every: int) -> Table:
    """Correlate two tables over the ticks in (t - window, t] at which both have a value."""
    out: Table = {}
    for key in {k for k, _ in left} & {k for k, _ in right}:
        for t in ticks(every):
            span = [
                u
                for u in ticks(every)
                if t - window < u <= t and (key, u) in left and (key, u) in right
            ]
            result = pearson([(left[key, u], right[key, u]) for u in span])  # type: ignore[misc]
            if result is not None:
                out[key, t] = result
    return out


def last_of(table: Table, interval: int, every: int) -> Table:
    """Return the value of the last tick of a slower insight at each tick of a faster one."""
    out: Table = {}
    for t in ticks(every):
        before = t // interval * interval
        for key in {k for k, _ in table}:
            if (key, before) in table:
                out[key, t] = table[key, before]
    return out


def cells(
    points: list[Point], at: Callable[[Point], str | None], every: int, by: tuple[str, ...] = ()
) -> Table:
    """Return a text of the latest point of each key at each tick."""
    table = {where_: at(p) for where_, p in latest(points, every, by).items()}
    return {where_: text for where_, text in table.items() if text is not None}
