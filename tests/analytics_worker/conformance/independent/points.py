"""The points of a small city, in milliseconds from 0 to ``END``."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

SECOND = 1_000
MINUTE = 60 * SECOND
END = 5 * MINUTE


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


REGIONS = {
    "node_1": "east",
    "node_2": "east",
    "node_3": "west",
    "node_4": "west",
    "node_5": "north",
    "node_6": "north",
}
STOPS = ("stop_1", "stop_2", "stop_3", "stop_4", "stop_5")
LINES = {"bus_1": "L1", "bus_2": "L1", "bus_3": "L2", "bus_4": "L2", "bus_5": "L3", "bus_6": "L3"}
DRIVERS = {
    "bus_1": "anna",
    "bus_2": "bilal",
    "bus_3": "chloe",
    "bus_4": "dara",
    "bus_5": "emre",
    "bus_6": "fay",
}
DISEASES = ("malaria", "influenza", "measles")
MOVIES = ("Zorba", "Amelie", "tootsie")
COUNTRIES = {"1": "GR", "2": "FR", "3": "IT"}
LEGAL = {"Zorba": ["GR", "CY"], "Amelie": ["FR"]}
CENTRE = (35.17, 33.36)


def ip_to_country(ip: str) -> str:
    """Return the country of an address, as the example package of operators does."""
    return COUNTRIES[ip.split(".")[1]]


def legal_countries(movie: object) -> list[str]:
    """Return the countries in which a movie may be shown, as the example package does."""
    return LEGAL.get(str(movie), [])


def city() -> list[Point]:
    """Return all points of the city, in no particular order."""
    draw = random.Random(17)  # noqa: S311 - made-up points
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
            about = 500 + step * 5 * SECOND
            stop = STOPS[(step // 4 + number) % len(STOPS)]
            lat += draw.choice((-0.004, 0.0, 0.004))
            lon += draw.choice((-0.004, 0.0, 0.004))
            moving = dict(base, stop=stop, driver=DRIVERS[bus])
            points.append(
                Point(bus, "delay", moment("delay", about), draw.randrange(-8, 33) / 4, moving)
            )
            place = {"lat": round(lat, 4), "lon": round(lon, 4)}
            points.append(
                Point(
                    bus, "speed", moment("speed", about), draw.randrange(0, 120) / 2, moving | place
                )
            )
            where = "unknown" if bus == "bus_6" and step % 7 == 3 else f"{lat:.4f},{lon:.4f}"
            points.append(Point(bus, "gps", moment("gps", about), 1.0, base | {"gps": where}))
            fix = f"[{lat:.4f}, {lon:.4f}]"
            points.append(Point(bus, "fix", moment("fix", about), 1.0, base | {"fix": fix}))
            # Two buses of a line may board at one moment: equal times on purpose.
            boarding = 1_000 + step * 5 * SECOND + (number % 2) * 1_000 * (step % 3)
            points.append(Point(bus, "passengers", boarding, float(draw.randrange(0, 12)), moving))
    for number in range(1, 7):
        node = f"node_{number}"
        base = {
            "node": node,
            "region": REGIONS[node],
            "service": draw.choice(("web.front", "web.back")),
        }
        for step in range(70):
            about = 300 + step * 4 * SECOND
            points.append(
                Point(
                    node, "cpu_util", moment("cpu_util", about), draw.randrange(80, 400) / 4, base
                )
            )
            cost = draw.randrange(8, 60) / 4
            at = {"dc_id": f"dc_{(number + step) % 4}", "dc_cost": draw.choice((2, 4, 6))}
            points.append(Point(node, "cost", moment("cost", about), cost, base | at))
        for step in range(45):
            about = 700 + step * 6 * SECOND + number * 311
            ip = f"10.{draw.randrange(1, 4)}.0.{draw.randrange(1, 9)}"
            asked = {"ip": ip, "movie": draw.choice(MOVIES), "country": ip_to_country(ip)}
            points.append(
                Point(f"client_{number}", "request", moment("request", about), 1.0, base | asked)
            )
    for number in range(1, 5):
        node = f"node_{number}"
        base = {
            "node": node,
            "region": REGIONS[node],
            "city": "nicosia" if number < 3 else "larnaca",
        }
        for step in range(40):
            about = 900 + step * 7 * SECOND
            ward = draw.choice(("children", "surgery"))
            case = {"disease": draw.choice(DISEASES), "ward": ward}
            points.append(
                Point(f"hospital_{number}", "disease", moment("disease", about), 1.0, base | case)
            )
            limit = {"ward": ward, "limit": draw.choice((37, 38, 39))}
            heat = draw.randrange(144, 164) / 4
            points.append(
                Point(
                    f"hospital_{number}",
                    "temperature",
                    moment("temperature", about),
                    heat,
                    base | limit,
                )
            )
            filed = {"quantity": draw.choice(("delay", "speed", "noise"))}
            points.append(
                Point(
                    f"hospital_{number}",
                    "report",
                    moment("report", about),
                    float(step),
                    base | filed,
                )
            )
    for step in range(60):
        base = {"node": "node_1", "region": "east", "line": "L1"}
        points.append(Point("meter_1", "ramp", 2_500 + step * 5 * SECOND, 10.0 + 2 * step, base))
        points.append(Point("meter_1", "level", 2_500 + step * 5 * SECOND, 7.5, base))
    draw.shuffle(points)
    return points


POINTS = city()


Keep = Callable[[Point], bool]


def of(metric: str, keep: Keep = lambda _: True) -> list[Point]:
    """Return the points of a metric that satisfy a condition, by time."""
    return sorted(
        (p for p in POINTS if p.metric == metric and keep(p)),
        key=lambda p: (p.ts, p.entity, p.value),
    )


def eq(name: str, *values: object) -> Keep:
    """Return the condition that an attribute has one of some values."""
    return lambda p: p.get(name) in values
