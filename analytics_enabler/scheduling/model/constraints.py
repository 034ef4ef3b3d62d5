"""The constraints that a query sets on the nodes that run its job, and on the job's cost."""

import msgspec

HOUR_MS = 3_600_000


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """The restriction of a job to nodes whose label ``label`` has the value ``value``.

    ``count``: the maximum number of nodes; None: any number. ``dedicated``: the nodes run no other
    job.
    """

    label: str
    value: str
    count: int | None = None
    dedicated: bool = False


class CostCap(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum cost of a job: ``amount`` per ``per_ms``, in the currency of the prices."""

    amount: float
    per_ms: int

    @property
    def per_hour(self) -> float:
        """The maximum cost per hour.

        >>> CostCap(amount=12.0, per_ms=24 * HOUR_MS).per_hour
        0.5
        """
        return self.amount * HOUR_MS / self.per_ms
