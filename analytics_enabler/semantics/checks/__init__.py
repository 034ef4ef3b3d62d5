"""The checks: functions that take a bound insight and yield diagnostics."""

from collections.abc import Callable, Iterator

from analytics_enabler.semantics.bind.bound_tree import BoundInsight
from analytics_enabler.semantics.checks.attributes import check_attributes
from analytics_enabler.semantics.checks.compared_values import check_compared_values
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.checks.feeds import check_feed
from analytics_enabler.semantics.checks.gauges import check_latest_of_several, check_sums_of_gauges
from analytics_enabler.semantics.checks.keys import check_keys
from analytics_enabler.semantics.checks.point_spans import check_point_spans
from analytics_enabler.semantics.checks.positions import check_geohashes, check_positions
from analytics_enabler.semantics.checks.reads import check_points, check_reads
from analytics_enabler.semantics.checks.sampling import check_sampling
from analytics_enabler.semantics.checks.size import check_size
from analytics_enabler.semantics.checks.tick_series import check_tick_series
from analytics_enabler.semantics.checks.types import check_types
from analytics_enabler.semantics.checks.unknown_attributes import (
    check_unknown_attributes,
    check_unknown_keys,
)
from analytics_enabler.semantics.checks.windows import check_windows
from grammar import Diagnostic

__all__ = ["CHECKS", "Context", "check_insight", "check_points"]

CHECKS: tuple[Callable[[BoundInsight, Context], Iterator[Diagnostic]], ...] = (
    check_size,
    check_types,
    check_keys,
    check_windows,
    check_point_spans,
    check_tick_series,
    check_reads,
    check_sampling,
    check_feed,
    check_attributes,
    check_unknown_keys,
    check_unknown_attributes,
    check_compared_values,
    check_positions,
    check_geohashes,
    check_latest_of_several,
    check_sums_of_gauges,
)


def check_insight(insight: BoundInsight, context: Context) -> list[Diagnostic]:
    """Return the diagnostics of all checks of an insight."""
    return [problem for check in CHECKS for problem in check(insight, context)]
