"""Leases of queries, for tests."""

from pathlib import Path

from analytics.plan.fragments import StreamLocation
from analytics_worker.query_lease import QueryLease


def granted(url: str, location: StreamLocation, epoch: int, folder: Path) -> QueryLease:
    """Return a lease of one stream with an epoch; ``folder``: the parent of the lease's folder."""
    lease = QueryLease.create(url, location, folder)
    lease.grant({location.stream: epoch})
    return lease
