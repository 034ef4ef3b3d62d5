"""The skew of peers' clocks, from the answers to heartbeats; and the alarm of a full disk."""

import httpx
import prometheus_client
import pytest

from mistbow.clock import system_clock
from storage_agent.agent.disk_alarm import DiskAlarm
from storage_agent.main import create_app
from storage_agent.membership.clock_skew import ClockSkew
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import AgentSite, ManualClock
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.sites import TOKEN


def recorded(clock: ManualClock, skew_ms: int, trip_ms: float, times: int = 5) -> ClockSkew:
    skew = ClockSkew(clock, 500)
    for _ in range(times):
        # The peer answered in the middle of the round trip.
        skew.record("b", clock.now - round(trip_ms / 2) + skew_ms, trip_ms)
    return skew


@pytest.mark.parametrize(
    ("skew_ms", "trip_ms", "direction"), [(700, 20, "ahead of"), (-900, 20, "behind")]
)
def test_skew_above_the_limit_is_reported_with_its_direction(skew_ms, trip_ms, direction):
    skew = recorded(ManualClock(10**12), skew_ms, trip_ms)
    assert skew.of("b") == pytest.approx(skew_ms, abs=1)
    [problem] = skew.problems
    assert f"the site b is {abs(skew_ms) / 1000:.1f} s {direction} this one" in problem


@pytest.mark.parametrize(
    ("skew_ms", "trip_ms", "times"),
    [(400, 20, 5), (700, 20, 4), (700, 600, 5)],
    ids=["below the limit", "too few samples", "within the error of a slow link"],
)
def test_skew_is_not_reported_while_it_is_uncertain(skew_ms, trip_ms, times):
    assert recorded(ManualClock(10**12), skew_ms, trip_ms, times).problems == []


@pytest.mark.parametrize(
    ("trips_ms", "error_ms"),
    [((600,) * 5, 300), ((20, 4000, 20, 20, 20), 10)],
    ids=["slow link", "one slow answer"],
)
def test_error_of_the_skew_is_that_of_the_most_exact_samples(trips_ms, error_ms):
    clock = ManualClock(10**12)
    skew = ClockSkew(clock, 500)
    for trip_ms in trips_ms:
        skew.record("skewed", clock.now - trip_ms // 2 + 700, trip_ms)
    assert skew.of("skewed") == pytest.approx(700, abs=1)
    assert skew.error_of("skewed") == pytest.approx(error_ms, abs=1)

    def exported() -> float | None:
        name = "mistbow_agent_clock_skew_error_seconds"
        return prometheus_client.REGISTRY.get_sample_value(name, {"site": "skewed"})

    assert exported() == pytest.approx(error_ms / 1000, abs=0.001)
    skew.forget("skewed")
    assert exported() is None


def test_report_ends_when_the_clocks_agree_again_and_when_the_peer_is_forgotten():
    clock = ManualClock(10**12)
    skew = recorded(clock, 700, 0)
    for _ in range(5):
        skew.record("b", clock.now, 0)
    assert skew.problems == []
    skew = recorded(clock, 700, 0)
    skew.forget("b")
    assert skew.problems == []


async def test_disk_alarm_begins_below_the_limit_only(tmp_path):
    for min_free_mb, begins in ((0, False), (2**40, True)):
        alarm = DiskAlarm(tmp_path, min_free_mb)
        await alarm.check()
        assert bool(alarm.problems) is begins
    assert f"the disk with {tmp_path} has" in alarm.problems[0]


async def test_disk_alarm_measures_the_disk_before_the_home_is_created(tmp_path):
    alarm = DiskAlarm(tmp_path / "new" / "home", 0)
    await alarm.check()
    assert alarm.size > alarm.free > 0


def test_agent_warns_of_a_peer_whose_clock_is_ahead_and_of_a_full_disk(places: list[AgentSite]):
    one, other = places[:2]
    with one.agent(other, disk_alarm_mb=2**40):
        settings = AgentSettings.model_validate(other.settings(one))
        with served(create_app(settings, lambda: system_clock() + 5_000), other.port):

            def warned() -> bool:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                body = httpx.get(f"{one.url}/readyz", headers=headers).json()
                text = "; ".join(body.get("warnings", ()))
                return "the clock of the site b is 5.0 s ahead" in text and "MB left" in text

            eventually(warned, timeout=60, what="it warns, and is ready")
