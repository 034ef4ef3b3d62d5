"""What a collector yields: one point in the form that the storage agent's ``/put`` takes."""

from dataclasses import dataclass

import msgspec

_SPELLING = {
    "metric": "metricID",
    "entity": "entityID",
    "entity_type": "entityType",
    "low": "minVal",
    "high": "maxVal",
    "value": "val",
    "ts": "timestamp",
}


class Measurement(msgspec.Struct, frozen=True, kw_only=True, rename=_SPELLING):
    """One point with what describes it; ``ts`` in milliseconds since the epoch."""

    metric: str
    entity: str
    value: float
    ts: int
    entity_type: str = ""
    name: str = ""
    units: str = ""
    desc: str = ""
    group: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """What all points of one metric share; ``high`` is the largest value that can be."""

    id: str
    units: str
    desc: str
    high: float | None = None

    def measure(self, entity: str, entity_type: str, value: float, ts: int) -> Measurement:
        """Return a point of this metric."""
        return Measurement(
            metric=self.id,
            entity=entity,
            value=value,
            ts=ts,
            entity_type=entity_type,
            name=self.id,
            units=self.units,
            desc=self.desc,
            group=self.id.partition(".")[0],
            low=0.0,
            high=self.high,
        )
