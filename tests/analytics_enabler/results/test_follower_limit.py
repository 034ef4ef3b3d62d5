"""The limit of result followers, which reserves connections for other requests."""

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics_enabler.main import create_app
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.settings import EnablerSettings
from mistbow.auth.callers import Caller, on_behalf_of
from mistbow.errors import UnavailableError
from tests.support.conditions import eventually
from tests.support.http_server import served


def test_follower_above_limit_is_refused_until_one_leaves(agent_url: str, tmp_path: Path) -> None:
    settings = EnablerSettings(home=tmp_path, agent_url=agent_url)
    with ExitStack() as stack:
        url = stack.enter_context(served(create_app(settings, max_followers=2)))
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
        enabler = EnablerClient(url)
        deployment_id = enabler.submit("a = COMPUTE AVG(x) EVERY 1 s").deployment_id
        path = f"{url}/api/insights/{deployment_id}/results/follow"
        # A request that is rejected for another reason does not count.
        for _ in range(3):
            assert httpx.get(path, params={"insight": "b"}).status_code == 404
        one, _ = (stack.enter_context(httpx.stream("GET", path)) for _ in range(2))
        assert one.is_success
        with pytest.raises(UnavailableError, match="2 clients follow results") as refused:
            next(enabler.follow(deployment_id))
        assert refused.value.hint
        assert enabler.results(deployment_id).results == []
        one.close()

        def admitted() -> bool:
            with httpx.stream("GET", path) as another:
                return another.is_success

        eventually(admitted, what="the place is free again")


async def test_followers_with_one_token_leave_places_for_other_tokens() -> None:
    limit = FollowerLimit(2)
    follower = asynccontextmanager(limit.follower)

    async with AsyncExitStack() as stack:

        async def follow(token: str) -> None:
            with on_behalf_of(Caller(token, frozenset({"read"}))):
                await stack.enter_async_context(follower())

        for _ in range(2):
            await follow("slow")
        with pytest.raises(UnavailableError, match="2 clients follow results with the same token"):
            await follow("slow")
        for _ in range(2):
            await follow("other")
        with pytest.raises(UnavailableError, match="4 clients follow results, which"):
            await follow("third")
    async with follower():
        pass
