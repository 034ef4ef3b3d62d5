"""What all points of a metric have in common."""

from dataclasses import dataclass

from mistbow.client.agent_model import Point


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of this host; ``high`` is the largest value that can be, the least is 0."""

    id: str
    units: str
    desc: str
    high: float | None = None

    def point(self, entity: str, entity_type: str, value: float, ts: int) -> Point:
        """Return a point of this metric; its group is the first word of the metric's id."""
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
            min_val=0.0,
            max_val=self.high,
        )
