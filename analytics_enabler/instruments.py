"""What the enabler counts, for Prometheus."""

from prometheus_client import Counter, Gauge

INSIGHTS = Gauge("mistbow_insights", "Insights in force.")
SUBMISSIONS = Counter(
    "mistbow_submissions_total", "Submitted, amended and deleted deployments.", ["kind"]
)
RECONCILE_ERRORS = Counter(
    "mistbow_reconcile_errors_total", "Failed attempts to make the worker run what is deployed."
)
FOLLOWERS = Gauge("mistbow_followers", "Open streams of server-sent results.")
