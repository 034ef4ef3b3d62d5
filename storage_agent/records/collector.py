"""Keeping this node's own routing table up to date."""

import asyncio

from mistbow.errors import MistbowError
from mistbow.telemetry import get_logger
from storage_agent.records.host_routes import host_routes
from storage_agent.records.routing import Routing

log = get_logger(__name__)

_EVERY_S = 30.0


async def collect(routing: Routing) -> None:
    """Look at this host's routes now and then, for ever, and put them when they have changed."""
    while True:
        try:
            routes = host_routes()
            if routes is None:
                log.info("this host does not show its routes")
                return
            await routing.put_own(routes)
        except MistbowError as error:
            log.info("routes not stored", error=error.message)
        except Exception as error:
            log.error("routes not collected", exc_info=error)
        await asyncio.sleep(_EVERY_S)
