"""Followers leave room for everything else."""

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from analytics_enabler.main import create_app
from mistbow.client.enabler import EnablerClient
from mistbow.errors import UnavailableError
from mistbow.settings import EnablerSettings
from tests.support.serving import served
from tests.support.waiting import eventually


def test_followers_beyond_the_limit_are_refused_until_one_leaves(
    agent_url: str, tmp_path: Path
) -> None:
    settings = EnablerSettings(home=tmp_path, agent_url=agent_url)
    with ExitStack() as stack:
        url = stack.enter_context(served(create_app(settings, most_followers=2)))
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
        enabler = EnablerClient(url)
        deployment_id = enabler.submit("a = COMPUTE AVG(x) EVERY 1 s").deployment_id
        path = f"{url}/api/insights/{deployment_id}/results/follow"
        # What is refused for another reason gives its place back.
        for _ in range(3):
            assert httpx.get(path, params={"insight": "b"}).status_code == 404
        one, _ = (stack.enter_context(httpx.stream("GET", path)) for _ in range(2))
        assert one.is_success
        with pytest.raises(UnavailableError, match="2 follow results already") as refused:
            next(enabler.follow(deployment_id))
        assert refused.value.hint
        assert enabler.results(deployment_id).results == []
        one.close()

        def admitted() -> bool:
            with httpx.stream("GET", path) as another:
                return another.is_success

        eventually(admitted, what="the place is free again")
