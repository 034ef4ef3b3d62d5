"""How Spark's processes tell the worker what insights lack: by an accumulator of Spark's.

Its updates come with the end of each task that succeeds.
"""

from dataclasses import dataclass

from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from analytics_worker.troubles import Trouble

Troubles = dict[str, Trouble]
"""The newest of each insight, by its uid."""


class Newest(AccumulatorParam[Troubles]):
    """Keeps what is told of the newest tick; corrections compute older ones again."""

    def zero(self, value: Troubles) -> Troubles:
        """Return nothing."""
        del value
        return {}

    def addInPlace(self, value1: Troubles, value2: Troubles) -> Troubles:  # noqa: N802 - Spark's
        """Take in what is newer."""
        for uid, trouble in value2.items():
            if uid not in value1 or trouble.tick >= value1[uid].tick:
                value1[uid] = trouble
        return value1


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of an insight's trouble; it goes with a query to Spark's processes."""

    heard: Accumulator[Troubles]

    def __call__(self, uid: str, trouble: Trouble) -> None:
        """Take in a trouble."""
        self.heard.add({uid: trouble})


def teller_of(session: SparkSession) -> Teller:
    """Return one to give to queries."""
    nothing: Troubles = {}
    return Teller(session.sparkContext.accumulator(nothing, Newest()))
