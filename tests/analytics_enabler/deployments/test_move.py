"""Refused attempts of moves to a larger domain: when they are repeated."""

import msgspec
import pytest

from analytics_enabler.deployments.move import RETRY_MS, MoveRefusal

REFUSAL = MoveRefusal(at=1_000_000, why="full", site="hub", generation=2, epoch=7, is_absent=True)
SAME = (2, 7, "hub")


@pytest.mark.parametrize(
    ("updated_at", "rank", "after_ms", "is_outdated"),
    [
        (999_000, SAME, 5_000, False),
        (1_000_001, SAME, 5_000, True),
        (999_000, (2, 8, "hub"), 5_000, True),
        (999_000, (3, 7, "hub"), 5_000, True),
        (999_000, (2, 7, "edge"), 5_000, True),
        (999_000, SAME, RETRY_MS - 1, False),
        # The larger domain may have capacity by now, or trust this one again.
        (999_000, SAME, RETRY_MS, True),
    ],
)
def test_refused_attempt_is_repeated_after_a_change_or_a_time(
    updated_at: int, rank: tuple[int, int, str], after_ms: int, is_outdated: bool
) -> None:
    now = REFUSAL.at + after_ms
    assert REFUSAL.is_outdated(updated_at, rank, now) is is_outdated
    assert msgspec.structs.replace(REFUSAL, at=now).is_outdated(0, SAME, now) is False
