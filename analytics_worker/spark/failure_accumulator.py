"""The failures of operators, reported by Spark's Python processes through a Spark accumulator.

Spark delivers the updates of a task when the task succeeds.
"""

from dataclasses import dataclass

from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from analytics_worker.evaluate.operator_failures import OperatorFailure

Failures = dict[str, OperatorFailure]
"""Insight uid -> the newest failure of the insight's operators."""


class NewestFailures(AccumulatorParam[Failures]):
    """Merges failures: for each insight, the failure at the newest tick is retained.

    Corrections report older ticks later; these reports are ignored.
    """

    def zero(self, value: Failures) -> Failures:
        """Return the initial value: no failures."""
        del value
        return {}

    def addInPlace(self, value1: Failures, value2: Failures) -> Failures:  # noqa: N802 - Spark's
        """Add the failures of ``value2`` to ``value1``, and return ``value1``.

        For each insight, the failure at the newer tick is retained.
        """
        for uid, failure in value2.items():
            if uid not in value1 or failure.tick >= value1[uid].tick:
                value1[uid] = failure
        return value1


@dataclass(frozen=True, slots=True)
class FailureReporter:
    """Reports failures to the worker; Spark sends the reporter to its processes with a query."""

    accumulator: Accumulator[Failures]

    def __call__(self, uid: str, failure: OperatorFailure) -> None:
        """Report the failure of an insight's operators."""
        self.accumulator.add({uid: failure})


def failure_reporter(session: SparkSession) -> FailureReporter:
    """Return a new reporter of failures for the queries of a Spark session."""
    none: Failures = {}
    return FailureReporter(session.sparkContext.accumulator(none, NewestFailures()))
