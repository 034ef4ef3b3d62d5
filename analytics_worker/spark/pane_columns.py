"""The columns of panes, as Spark aggregates them from points.

Every pane has count, sum, minimum and maximum. Other contents are computed only if the plan needs
them, and only for the panes that carry them, since a list of points costs more than four numbers.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from analytics.plan.functions import Content

_POINT = "struct<ts:bigint,value:double,entity:string>"
_DRAWN = "struct<ts:bigint,value:double,stratum:string,chance:double,lot:double,seen:bigint>"
NUMBERS = ("sum", "count", "min", "max")


@dataclass(frozen=True, slots=True)
class ContentColumn:
    """The Spark column for one kind of pane content.

    ``kind``: the Spark type of the column. ``of_points``: a function that returns the aggregation
    of points to the column; its argument is a boolean column: whether the pane of a point carries
    the content.
    """

    kind: str
    of_points: Callable[[Column], Column]


def _moments(carries: Column) -> Column:
    value = F.when(carries, F.col("value"))
    return F.var_pop(value) * F.count(value)


def _logs(carries: Column) -> Column:
    # Values up to 0 have no logarithm: readers check the minimum.
    return F.sum(F.when(carries & (F.col("value") > 0), F.ln("value")))


def _latest_point(carries: Column) -> Column:
    return F.max(F.when(carries, F.struct("ts", "value", "entity")))


def _points(carries: Column) -> Column:
    is_kept = F.col("value").isNotNull()
    return F.collect_list(F.when(carries & is_kept, F.struct("ts", "value", "entity")))


def _drawn(carries: Column) -> Column:
    draw = ("draw.stratum", "draw.chance", "draw.lot", "draw.seen")
    return F.collect_list(F.when(carries, F.struct("ts", "value", *draw)))


CONTENT_COLUMNS: dict[Content, ContentColumn] = {
    "moments": ContentColumn("double", _moments),
    "logs": ContentColumn("double", _logs),
    "latest": ContentColumn(_POINT, _latest_point),
    "points": ContentColumn(f"array<{_POINT}>", _points),
    "sample": ContentColumn(f"array<{_DRAWN}>", _drawn),
}
"""Content -> its Spark column, which has the name of the content."""

PANE_COLUMNS = (*NUMBERS, *CONTENT_COLUMNS)


def numbers_of_points() -> list[Column]:
    """Return the aggregations of the columns sum, count, min and max, which every pane has.

    Each aggregation merges the column of that name in the rows of ``BATCHED``.
    """
    return [
        F.sum("sum").alias("sum"),
        F.sum("count").alias("count"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
    ]


def of_points(contents: Sequence[Collection[Content]]) -> list[Column]:
    """Return the aggregations to the optional contents of panes.

    ``contents``: for each route, the contents of the pane with this route.
    """
    needed = set().union(*contents)
    return [
        column.of_points(_carries(contents, name)).alias(name)
        for name, column in CONTENT_COLUMNS.items()
        if name in needed
    ]


def missing_in_panes(columns: Collection[str]) -> list[Column]:
    """Return a column of nulls for each kind of content that is not in ``columns``."""
    return [
        F.lit(None).cast(column.kind).alias(name)
        for name, column in CONTENT_COLUMNS.items()
        if name not in columns
    ]


def _carries(contents: Sequence[Collection[Content]], name: Content) -> Column:
    chosen = [str(route) for route, each in enumerate(contents) if name in each]
    return F.expr(f"route in ({', '.join(chosen)})")
