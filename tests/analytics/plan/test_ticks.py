"""The ticks of a time zone, also on the days of daylight-saving changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.plan.ticks import DAY_MS, Ticks, TimeOfDay, is_zone

MINUTE_MS = 60_000
ZONES = ("GMT", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
         "Pacific/Apia", "Africa/Casablanca")  # fmt: skip


@given(st.integers(0, 10**7), st.integers(1, 10**5))
def test_the_ticks_of_an_interval_are_its_multiples(time: int, every: int) -> None:
    tick = Ticks(every).after(time)
    assert tick % every == 0
    assert time < tick <= time + every
    assert Ticks(every).last(tick - 1) == tick - every


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(ZONES),
    st.integers(0, 24 * 60 - 1),
    st.integers(1, 5),
    st.datetimes(datetime(2000, 1, 20), datetime(2095, 1, 1)),
)
def test_each_day_has_a_tick_at_its_time(
    zone: str, minutes: int, days: int, around: datetime
) -> None:
    ticks = Ticks(days * DAY_MS, TimeOfDay(minutes * MINUTE_MS, zone))
    now = round(around.replace(tzinfo=UTC).timestamp() * 1000)
    epoch, wanted = datetime(1970, 1, 1), set()
    for day in range((around - epoch).days - days - 2, (around - epoch).days + days + 3):
        if day % days == 0:
            shown = epoch + timedelta(days=day, minutes=minutes)
            wanted.add(round(shown.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000))
    assert ticks.after(now) == min(tick for tick in wanted if tick > now)
    assert ticks.last(now) == max(tick for tick in wanted if tick <= now)
    for tick in wanted:
        assert ticks.includes(tick)
        assert not ticks.includes(tick + MINUTE_MS)
        assert tick % ticks.step_ms == 0
        assert tick % (days * DAY_MS) in ticks.phases


@pytest.mark.parametrize(
    ("zone", "hours"), [("GMT", 0), ("+02:00", 2), ("UTC-5", -5), ("gmt+5:45", 5.75)]
)
def test_fixed_zones_have_one_phase(zone: str, hours: float) -> None:
    assert is_zone(zone)
    ticks = Ticks(DAY_MS, TimeOfDay(0, zone))
    assert ticks.phases == (-hours * 60 * MINUTE_MS % DAY_MS,)


@pytest.mark.parametrize("name", ["", "Mars", "Europe", "../UTC", "+25", "02:00", "+2:60", "+२"])
def test_invalid_zones_are_rejected(name: str) -> None:
    assert not is_zone(name)


def test_ticks_that_are_a_subset_of_other_ticks() -> None:
    daily = Ticks(DAY_MS, TimeOfDay(60 * MINUTE_MS, "Europe/Berlin"))
    assert Ticks(3 * DAY_MS, daily.at).are_subset_of(daily)
    assert not daily.are_subset_of(Ticks(3 * DAY_MS, daily.at))
    assert daily.are_subset_of(Ticks(60 * MINUTE_MS))
    assert not daily.are_subset_of(Ticks(7 * MINUTE_MS))
    assert not daily.are_subset_of(Ticks(DAY_MS))
    assert not Ticks(DAY_MS).are_subset_of(daily)
