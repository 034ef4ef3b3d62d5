"""The periodic collection of this host's routing table."""

import math

from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger
from storage_agent.records.host_routes import host_routes
from storage_agent.records.routing import RoutingTableStore

log = get_logger(__name__)

_INTERVAL_S = 30.0


def collect_routes(tables: RoutingTableStore) -> PeriodicTask:
    """Return a periodic task, not yet started, that stores each change of this host's routes."""

    async def collect() -> float:
        routes = host_routes()
        if routes is None:
            log.info("host_routes_unavailable")
            return math.inf
        await tables.put_own(routes)
        return _INTERVAL_S

    return PeriodicTask(collect, Schedule("route_collection", interval_s=_INTERVAL_S))
