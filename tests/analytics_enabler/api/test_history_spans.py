"""The span of the history that a request reads."""

import pytest

from analytics_enabler.api.placements import MAX_SPAN_MS, history_span
from mistbow.errors import InvalidRequestError

NOW = 1_795_917_600_000
DAY_AGO = NOW - MAX_SPAN_MS


@pytest.mark.parametrize(
    ("start", "first"),
    [(DAY_AGO - 5, DAY_AGO), (0, DAY_AGO), (DAY_AGO + 5, DAY_AGO + 5), (NOW + 5, NOW)],
)
def test_start_without_end_is_limited_to_the_last_day(start: int, first: int) -> None:
    assert history_span(start, None, NOW) == (first, NOW)


def test_span_is_by_default_an_hour() -> None:
    assert history_span(None, None, NOW) == (NOW - 3_600_000, NOW)
    assert history_span(None, NOW - 5, NOW) == (NOW - 3_600_005, NOW - 5)
    assert history_span(None, 5, NOW) == (0, 5)


@pytest.mark.parametrize(("start", "end"), [(DAY_AGO - 1, NOW), (NOW + 1, NOW)])
def test_span_with_both_ends_is_refused_beyond_a_day(start: int, end: int) -> None:
    with pytest.raises(InvalidRequestError, match="the span must have"):
        history_span(start, end, NOW)
    assert history_span(DAY_AGO, NOW, NOW) == (DAY_AGO, NOW)
