"""Live answers, which end when the enabler becomes a standby."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from analytics_enabler.domains.role import RoleCell
from mistbow.runtime.tasks import cancel_and_wait

Item = TypeVar("Item")


async def until_standby(
    role: RoleCell, items: AsyncGenerator[Item, None]
) -> AsyncGenerator[Item, None]:
    """Yield items until this enabler is a standby, which has only old states and results.

    The client then connects again, and its request is proxied to the active enabler.
    """
    standby = asyncio.create_task(role.until_standby())
    following: asyncio.Task[Item | None] | None = None
    try:
        while not standby.done():
            following = asyncio.create_task(_next(items))
            await asyncio.wait([following, standby], return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            item = following.result()
            if item is None:
                return
            yield item
    finally:
        await cancel_and_wait([standby] if following is None else [standby, following])
        await items.aclose()


async def _next(items: AsyncGenerator[Item, None]) -> Item | None:
    """Return the next item; None: there are no more."""
    return await anext(items, None)
