"""The metadata of a metric."""

from dataclasses import dataclass

from mistbow.client import Point


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of this host.

    ``high``, ``low``: the greatest and the least possible value; None: values have no such bound.
    """

    id: str
    units: str
    desc: str
    high: float | None = None
    low: float | None = 0.0

    def point(self, entity: str, entity_type: str, value: float, ts: int) -> Point:
        """Return a point of this metric, whose group is the first word of the metric's id."""
        return Point(
            metric=self.id,
            entity=entity,
            ts=ts,
            value=value,
            entity_type=entity_type,
            name=self.id,
            units=self.units,
            desc=self.desc,
            group=self.id.partition(".")[0],
            min_val=self.low,
            max_val=self.high,
        )
