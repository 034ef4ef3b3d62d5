"""The route for the health of the domain."""

from fastapi import APIRouter

from analytics.health_models import Health
from analytics_enabler.live.health import HealthReporter
from mistbow.auth.rules import requires


def health_router(reporter: HealthReporter) -> APIRouter:
    """Return the route ``/api/health``."""
    router = APIRouter(prefix="/api", tags=["operations"])

    @router.get("/health")
    @requires("read")
    async def show_health() -> Health:
        """Report the health of the domain: its state, and its problems with their remedies."""
        return await reporter.report()

    return router
