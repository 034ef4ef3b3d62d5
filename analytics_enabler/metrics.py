"""The metrics of the enabler, for Prometheus."""

from prometheus_client import Counter, Gauge

INSIGHTS = Gauge("mistbow_insights", "Insights in force.")
SUBMISSIONS = Counter(
    "mistbow_submissions_total",
    "Submitted, amended, paused, resumed and deleted deployments.",
    ["kind"],
)
RECONCILE_ERRORS = Counter(
    "mistbow_reconcile_errors_total", "Failed attempts to reconcile workers with deployments."
)
FOLLOWERS = Gauge("mistbow_followers", "Open streams of server-sent results.")
