"""What users ask of the nodes that run a job, and of what it costs."""

import msgspec

HOUR_MS = 3_600_000


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """Only nodes whose ``label`` is ``value`` run a job, and at most ``count`` of them.

    ``dedicated``: no other job runs on these.
    """

    label: str
    value: str
    count: int | None = None
    dedicated: bool = False


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a job may cost, ``amount`` in each ``per_ms``; prices are of any currency."""

    amount: float
    per_ms: int

    @property
    def per_hour(self) -> float:
        """The most that it may cost an hour.

        >>> Cap(amount=12.0, per_ms=24 * HOUR_MS).per_hour
        0.5
        """
        return self.amount * HOUR_MS / self.per_ms
