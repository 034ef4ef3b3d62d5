"""Health and live events of an enabler whose storage agent does not answer."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from analytics_enabler.live.site_statuses import SiteStatuses
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from tests.analytics_enabler.live.reader import reading
from tests.support.conditions import eventually
from tests.support.http_server import served


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    settings = EnablerSettings(home=tmp_path, agent_url="http://127.0.0.1:9")
    with served(create_app(settings)) as url:
        yield url


def test_health_states_what_the_enabler_waits_for(url: str) -> None:
    health = httpx.get(f"{url}/api/health").raise_for_status().json()
    assert health["state"] == "failed"
    assert "enabler_waiting" in {each["kind"] for each in health["problems"]}
    assert all(each["action"] for each in health["problems"])


def test_topics_are_followed_and_health_is_among_them(url: str) -> None:
    with reading(url, topics="states,decisions,fog,health") as reader:
        assert reader.next("health")["state"] == "failed"


def test_background_task_that_has_ended_is_a_warning_and_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: SiteStatuses) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(SiteStatuses, "run", fail)
    settings = EnablerSettings(home=tmp_path, agent_url="http://127.0.0.1:9")
    with served(create_app(settings)) as url:

        def warnings() -> list[str]:
            found: list[str] = httpx.get(f"{url}/readyz").json().get("warnings", [])
            return found

        [warning] = eventually(warnings, what="the task has ended")
        assert warning.startswith("the background task 'status of sites' has ended: restart")
        problems = httpx.get(f"{url}/api/health").raise_for_status().json()["problems"]
        whats = [each["what"] for each in problems if each["kind"] == "enabler_warning"]
        assert "the background task 'status of sites' has ended" in whats
