"""The demand of a fragment: the estimate of the cost model, and the worker's measurement."""

import msgspec


class FragmentCost(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated or measured demand of a fragment; None: unknown.

    ``cores``: CPU seconds per second. ``points_per_s``: the points or panes that it reads.
    ``bytes_per_s``: the bytes that it writes. ``check_core_s``: the CPU time (s) of the check of
    one point; None: it reads no points that can be checked.
    """

    cores: float | None = None
    memory_mb: float | None = None
    points_per_s: float | None = None
    bytes_per_s: float | None = None
    check_core_s: float | None = None
