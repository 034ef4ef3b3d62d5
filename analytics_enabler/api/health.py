"""The route of health: is all well, and what is not?"""

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
        """Report what is well in the domain and what is not, since when, and what to do."""
        return await reporter.report()

    return router
