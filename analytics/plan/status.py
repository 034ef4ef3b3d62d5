"""The status of a fragment that a worker runs."""

from typing import Literal

import msgspec

from mistbow.domains import DEFAULT_DOMAIN

FragmentState = Literal["starting", "running", "failed", "fenced", "shed"]


class FragmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state and the progress of a fragment; times in ms since the epoch.

    - ``state``: a ``failed`` fragment failed several times in a row, and is still retried. A
      ``fenced`` fragment does not run until it is requested again. A ``shed`` fragment does not run
      until its worker has enough capacity.
    - ``fingerprint``: the fingerprint of the newest accepted version. ``active``: the fingerprint
      of the running version; None: no version runs.
    - ``frontier``: the time up to which results are complete. ``lag_ms``: how long the oldest
      missing result has been due. ``lagging_since``: the time since which the fragment has lagged;
      ``shed_since``: the time since which the fragment has been shed. None: the fragment does not
      lag, or is not shed.
    - ``error``: the last error in one line, from the first failure to the next success;
      ``error_since``: the time of the first failure. None: the fragment has no error.
    - ``queries``: the number of Spark queries that run now.
    - ``batches``, ``rows_dropped``, ``rows_written``, ``bytes_written`` and ``spent_ms`` count
      since the worker's start. ``rows_dropped``: the rows that Spark's watermark dropped, normally
      0; a merge does not use Spark's watermark. ``spent_ms``: Spark's name of a phase of a
      micro-batch -> the time spent in this phase.
    - ``cpu_s``, ``rows_read``: the CPU time (s) of the fragment, and the points or panes that it
      read, since the worker's start; measured every few seconds. ``memory_mb``: the fragment's part
      of the memory that the worker uses for fragments.
    - ``checked``: the share of the points whose quality the worker checks. ``points_checked``,
      ``check_cpu_s``: the points that were checked, and the CPU time (s) of the checks, which
      ``cpu_s`` does not include, since the worker's start.
    - ``operator_failures``: insight uid -> a text about values that are missing in the newest
      results, because an operator of another package gave no answer: their number, and the reason.
    - ``silent``: uid of an insight that had no value in its last intervals -> why it had none.
    - ``missing``: site -> the time after which a merge computes results without this site.
    - ``correcting``: insight uid -> the time since which results of this insight lack late data.
      ``corrections_due``: insight uid -> the number of ticks whose results lack late data.
    - ``corrected_until``: results have all points that arrived while the frontier of the stream of
      points was earlier, except for missing sites; 0: unknown. With a feed, the frontier is that of
      the results.
    - ``searched_until``: as ``corrected_until``, but without the ticks whose correction waits for a
      silent site: the insights with such ticks are in ``correcting``.
    - ``domain``: the domain whose enabler ordered the fragment.
    """

    id: str
    fingerprint: str
    state: FragmentState
    active: str | None = None
    frontier: int
    error: str | None = None
    error_since: int | None = None
    lag_ms: int = 0
    lagging_since: int | None = None
    shed_since: int | None = None
    queries: int = 0
    batches: int = 0
    rows_dropped: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    spent_ms: dict[str, int] = msgspec.field(default_factory=dict)
    cpu_s: float = 0.0
    rows_read: int = 0
    memory_mb: float = 0.0
    checked: float = 0.0
    points_checked: int = 0
    check_cpu_s: float = 0.0
    operator_failures: dict[str, str] = msgspec.field(default_factory=dict, name="troubles")
    silent: dict[str, str] = msgspec.field(default_factory=dict)
    missing: dict[str, int] = msgspec.field(default_factory=dict)
    correcting: dict[str, int] = msgspec.field(default_factory=dict)
    corrections_due: dict[str, int] = msgspec.field(default_factory=dict)
    corrected_until: int = 0
    searched_until: int = 0
    domain: str = DEFAULT_DOMAIN
