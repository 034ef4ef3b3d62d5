"""A small city, made up before the implementation was read: points and a plain computation over them.

Times are in milliseconds. Nothing here imports Mistbow.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

T0 = 1_700_002_800_000
SECOND = 1_000
MINUTE = 60 * SECOND
END = T0 + 5 * MINUTE


@dataclass(frozen=True)
class Point:
    """One value of a metric of an entity at a time, with its attributes."""

    entity: str
    metric: str
    ts: int
    value: float
    attributes: dict[str, object] = field(default_factory=dict)

    def get(self, name: str) -> object:
        """Return an attribute, by any of its names in BY."""
        if name in ("entityID", "entity"):
            return self.entity
        if name in ("node_id", "fog_node_id"):
            name = "node"
        return self.attributes.get(name)


REGIONS = {"node_1": "east", "node_2": "east", "node_3": "west", "node_4": "west", "node_5": "north", "node_6": "north"}
STOPS = ("stop_1", "stop_2", "stop_3", "stop_4", "stop_5")
LINES = {"bus_1": "L1", "bus_2": "L1", "bus_3": "L2", "bus_4": "L2", "bus_5": "L3", "bus_6": "L3"}
DRIVERS = {"bus_1": "anna", "bus_2": "bilal", "bus_3": "chloe", "bus_4": "dara", "bus_5": "emre", "bus_6": "fay"}
DISEASES = ("malaria", "influenza", "measles")
MOVIES = ("zorba", "heidi", "tootsie")
LEGAL = {"zorba": ["GR", "CY"], "heidi": ["DE"]}
CENTRE = (35.17, 33.36)


def ip_to_country(ip: object) -> str | None:
    """Return the country of an address of this made-up network."""
    text = str(ip)
    return "CY" if text.startswith("10.1.") else "GR" if text.startswith("10.2.") else "DE"


def legal_countries(movie: object) -> list[str]:
    """Return the countries in which a film may be shown."""
    return LEGAL.get(str(movie), [])


def city() -> list[Point]:
    """Return all points of the city, in no particular order."""
    draw = random.Random(17)
    points: list[Point] = []
    taken: dict[str, set[int]] = defaultdict(set)

    def moment(metric: str, about: int) -> int:
        ts = about + draw.randrange(0, 1_900)
        while ts in taken[metric]:
            ts += 1
        taken[metric].add(ts)
        return ts

    for bus, line in LINES.items():
        number = int(bus[-1])
        base = {"node": f"node_{number}", "region": REGIONS[f"node_{number}"], "line": line}
        lat, lon = CENTRE[0] + 0.01 * number, CENTRE[1] - 0.01 * number
        for step in range(58):
            about = T0 + 500 + step * 5 * SECOND
            stop = STOPS[(step // 4 + number) % len(STOPS)]
            lat += draw.choice((-0.004, 0.0, 0.004))
            lon += draw.choice((-0.004, 0.0, 0.004))
            moving = dict(base, stop=stop, driver=DRIVERS[bus])
            points.append(Point(bus, "delay", moment("delay", about), draw.randrange(-8, 33) / 4, moving))
            place = {"lat": round(lat, 4), "lon": round(lon, 4)}
            points.append(Point(bus, "speed", moment("speed", about), draw.randrange(0, 120) / 2, moving | place))
            where = "unknown" if bus == "bus_6" and step % 7 == 3 else f"{lat:.4f},{lon:.4f}"
            points.append(Point(bus, "gps", moment("gps", about), 1.0, base | {"gps": where}))
            fix = f"[{lat:.4f}, {lon:.4f}]"
            points.append(Point(bus, "fix", moment("fix", about), 1.0, base | {"fix": fix}))
            # Two buses of a line may board at one moment: equal times on purpose.
            boarding = T0 + 1_000 + step * 5 * SECOND + (number % 2) * 1_000 * (step % 3)
            points.append(Point(bus, "passengers", boarding, float(draw.randrange(0, 12)), moving))
    for number in range(1, 7):
        node = f"node_{number}"
        base = {"node": node, "region": REGIONS[node], "service": draw.choice(("web.front", "web.back"))}
        for step in range(70):
            about = T0 + 300 + step * 4 * SECOND
            points.append(Point(node, "cpu_util", moment("cpu_util", about), draw.randrange(80, 400) / 4, base))
            cost = draw.randrange(8, 60) / 4
            at = {"dc_id": f"dc_{(number + step) % 4}", "dc_cost": draw.choice((2, 4, 6))}
            points.append(Point(node, "cost", moment("cost", about), cost, base | at))
        for step in range(45):
            about = T0 + 700 + step * 6 * SECOND + number * 311
            ip = f"10.{draw.randrange(1, 4)}.0.{draw.randrange(1, 9)}"
            asked = {"ip": ip, "movie": draw.choice(MOVIES), "country": ip_to_country(ip)}
            points.append(Point(f"client_{number}", "request", moment("request", about), 1.0, base | asked))
    for number in range(1, 5):
        node = f"node_{number}"
        base = {"node": node, "region": REGIONS[node], "city": "nicosia" if number < 3 else "larnaca"}
        for step in range(40):
            about = T0 + 900 + step * 7 * SECOND
            ward = draw.choice(("children", "surgery"))
            case = {"disease": draw.choice(DISEASES), "ward": ward}
            points.append(Point(f"hospital_{number}", "disease", moment("disease", about), 1.0, base | case))
            limit = {"ward": ward, "limit": draw.choice((37, 38, 39))}
            heat = draw.randrange(144, 164) / 4
            points.append(Point(f"hospital_{number}", "temperature", moment("temperature", about), heat, base | limit))
            filed = {"quantity": draw.choice(("delay", "speed", "noise"))}
            points.append(Point(f"hospital_{number}", "report", moment("report", about), float(step), base | filed))
    for step in range(60):
        base = {"node": "node_1", "region": "east", "line": "L1"}
        points.append(Point("meter_1", "ramp", T0 + 2_500 + step * 5 * SECOND, 10.0 + 2 * step, base))
        points.append(Point("meter_1", "level", T0 + 2_500 + step * 5 * SECOND, 7.5, base))
    draw.shuffle(points)
    return points


POINTS = city()

Key = tuple[object, ...]
Table = dict[tuple[Key, int], object]
Keep = Callable[[Point], bool]


def of(metric: str, keep: Keep = lambda _: True) -> list[Point]:
    """Return the points of a metric that satisfy a condition, by time."""
    return sorted((p for p in POINTS if p.metric == metric and keep(p)), key=lambda p: (p.ts, p.entity, p.value))


def ticks(every: int) -> list[int]:
    """Return the multiples of EVERY since the epoch in the time of the city."""
    return [t for t in range(T0 // every * every, END + 1, every) if t > T0]


def keyed(points: Iterable[Point], by: tuple[str, ...]) -> dict[Key, list[Point]]:
    """Return the points of each combination of values of the attributes."""
    groups: dict[Key, list[Point]] = defaultdict(list)
    for point in points:
        groups[tuple(point.get(name) for name in by)].append(point)
    return groups


def over(points: list[Point], f: Callable[[list[float]], object], window: int, every: int, by: tuple[str, ...] = (), offset: int = 0) -> Table:
    """Return an aggregate at each tick t over the points in (t - window - offset, t - offset]."""
    table: Table = {}
    for key, group in keyed(points, by).items():
        for t in ticks(every):
            values = [p.value for p in group if t - offset - window < p.ts <= t - offset]
            result = f(values) if values else None
            if result is not None:
                table[key, t] = result
    return table


def latest(points: list[Point], every: int, by: tuple[str, ...] = ()) -> dict[tuple[Key, int], Point]:
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


def spans(points: list[Point], f: Callable[[list[float]], object], n: int, by: tuple[str, ...] = ()) -> Table:
    """Return an aggregate over the points of a key since its previous value, at every n-th point."""
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
    """Join two tables by key and tick; the shorter key is the beginning of the longer one, or empty."""
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


def of_ticks(table: Table, f: Callable[[list[float]], object], window: int, every: int, keep: int | None = None) -> Table:
    """Compute a function of the values at the ticks in (t - window, t], in the order of the ticks."""
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
    down = math.sqrt(math.fsum((x - a) ** 2 for x, _ in pairs) * math.fsum((y - b) ** 2 for _, y in pairs))
    return up / down if down > 1e-12 else None


def correlated(left: Table, right: Table, window: int, every: int) -> Table:
    """Return the correlation of two tables over the ticks in (t - window, t] at which both have a value."""
    out: Table = {}
    for key in {k for k, _ in left} & {k for k, _ in right}:
        for t in ticks(every):
            span = [u for u in ticks(every) if t - window < u <= t and (key, u) in left and (key, u) in right]
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


def geohash(lat: float, lon: float, length: int) -> str:
    """Return a geohash: bits of longitude and latitude in turn, five to a character."""
    alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    text, number = "", 0
    for bit in range(5 * length):
        side, value = (ranges[1], lat) if bit % 2 else (ranges[0], lon)
        middle = (side[0] + side[1]) / 2
        upper = value >= middle
        side[0 if upper else 1] = middle
        number = number * 2 + upper
        if bit % 5 == 4:
            text, number = text + alphabet[number], 0
    return text


def cell(text: object, length: int) -> str | None:
    """Return the geohash of a text "lat,lon" or "[lat, lon]"."""
    found = re.fullmatch(r"\[?\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*\]?", str(text))
    return geohash(float(found[1]), float(found[2]), length) if found else None


def cells(points: list[Point], at: Callable[[Point], str | None], every: int, by: tuple[str, ...] = ()) -> Table:
    """Return a text of the latest point of each key at each tick."""
    table = {where_: at(p) for where_, p in latest(points, every, by).items()}
    return {where_: text for where_, text in table.items() if text is not None}


assert geohash(57.64911, 10.40744, 11) == "u4pruydqqvj"
