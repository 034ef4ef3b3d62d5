"""Recorded points of a small city, over which the texts of the model are computed."""

from dataclasses import dataclass, field

from tests.support.points import Row

_BUSES = (
    ("bus_1", {"node": "node_1", "region": "east", "stop": "s1", "city": "nicosia", "line": 1.0}),
    ("bus_2", {"node": "node_2", "region": "east", "stop": "s2", "city": "nicosia", "line": 2.0}),
    ("bus_3", {"node": "node_6", "region": "west", "stop": "s1", "city": "limassol", "line": 1.0}),
    ("bus_4", {"node": "node_6", "region": "west", "stop": "s3", "city": "limassol"}),
)
_DISEASES = ("malaria", "flu", "flu", "dengue", "malaria")
_COUNTRIES = ("CY", "GR", "FR", "CY", "IT")
_MOVIES = ("Zorba", "Amelie", "Zorba", "Cinema Paradiso")


@dataclass(frozen=True)
class City:
    """The points of some metrics, all in time; values are multiples of 0.25."""

    rows: list[Row] = field(default_factory=lambda: list(_rows()), repr=False)

    @property
    def come(self) -> list[Row]:
        """All points: none is late."""
        return self.rows


METRICS = frozenset({
    "delay", "speed", "passengers", "energy", "latitude", "longitude", "disease", "request",
    "position", "cost",
})  # fmt: skip


def _rows() -> list[Row]:
    found = []
    for number in range(44):
        ts = 500 * number + 250
        for index, (entity, attributes) in enumerate(_BUSES):
            if (number + index) % 7 == 6:
                continue  # no point of this bus now
            values = {
                "delay": (number * 7 + index * 5) % 23 - 6,
                "speed": 20 + (number * 3 + index * 11) % 40 / 4,
                "passengers": (number + 3 * index) % 17,
                "cost": 5 + (number * index) % 9,
                "latitude": 35 + index / 4 + number / 64,
                "longitude": 33 + number / 32,
            }
            if number % 3 == index % 3:
                values["energy"] = 100 + (number * 13 + index) % 50
            where = {"lat": values["latitude"], "lon": values["longitude"]}
            for metric, value in values.items():
                more = where if metric == "speed" else {"dc_cost": 5.0 + index}
                found.append(Row(metric, entity, ts, float(value), -1, {**attributes, **more}))
            if number % 2:
                illness = _DISEASES[(number + index) % len(_DISEASES)]
                found.append(_event("disease", entity, ts, {**attributes, "disease": illness}))
            else:
                country = _COUNTRIES[(number // 2 + index) % len(_COUNTRIES)]
                asked = {
                    "country": country,
                    "ip": f"10.{number % 5}.0.{index}",
                    "movie": _MOVIES[(number + index) % len(_MOVIES)],
                }
                found.append(_event("request", entity, ts, {**attributes, **asked}))
            place = f"{values['latitude']},{values['longitude']}"
            found.append(_event("position", entity, ts, {**attributes, "position": place}))
    return found


def _event(metric: str, entity: str, ts: int, attributes: dict[str, str | float | bool]) -> Row:
    return Row(metric, entity, ts, 1.0, -1, attributes)
