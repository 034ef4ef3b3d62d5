"""The metrics of the monitoring agent about itself."""

from prometheus_client import Counter, Gauge

COLLECTED_POINTS = Counter("mistbow_monitor_collected_points", "Points collected.", ["collector"])
FAILED_COLLECTIONS = Counter(
    "mistbow_monitor_failed_collections", "Collections that failed.", ["collector"]
)
INVALID_POINTS = Counter(
    "mistbow_monitor_invalid_points", "Points of JSON sources that are invalid.", ["collector"]
)
SKIPPED_COLLECTIONS = Counter(
    "mistbow_monitor_skipped_collections",
    "Collections skipped by adaptive sampling: none of their values was due.",
    ["collector"],
)
SKIPPED_POINTS = Counter(
    "mistbow_monitor_skipped_points",
    "Points skipped by adaptive sampling: the previous value is still valid.",
)
SENT_POINTS = Counter(
    "mistbow_monitor_sent_points", "Points that the storage agent has acknowledged."
)
REFUSED_POINTS = Counter(
    "mistbow_monitor_refused_points",
    "Points that the storage agent refused, or that cannot be encoded as JSON.",
)
DROPPED_POINTS = Counter(
    "mistbow_monitor_dropped_points", "Points dropped because the buffer was full."
)
BUFFERED_POINTS = Gauge(
    "mistbow_monitor_buffered_points", "Points that wait for the storage agent."
)
