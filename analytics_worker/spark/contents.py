"""How Spark makes what panes carry from points.

Count, sum, least and greatest are always there. The rest is made only where a plan has it, and
only for the panes that carry it: a list of points costs more than four numbers.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from mistbow.plan.contents import Content

_POINT = "struct<ts:bigint,value:double,entity:string>"
_DRAWN = "struct<ts:bigint,value:double,stratum:string,chance:double,lot:double,seen:bigint>"
NUMBERS = ("sum", "count", "min", "max")


@dataclass(frozen=True, slots=True)
class Carried:
    """A content's column: its type, and how it is made of points.

    ``of_points`` takes the condition under which a point's pane carries it.
    """

    kind: str
    of_points: Callable[[Column], Column]


def _moments(carries: Column) -> Column:
    value = F.when(carries, F.col("value"))
    return F.var_pop(value) * F.count(value)


def _logs(carries: Column) -> Column:
    # Of what is not above zero there is none; who reads it looks at the least value.
    return F.sum(F.when(carries & (F.col("value") > 0), F.ln("value")))


def _latest_point(carries: Column) -> Column:
    return F.max(F.when(carries, F.struct("ts", "value", "entity")))


def _points(carries: Column) -> Column:
    kept = F.col("value").isNotNull()
    return F.collect_list(F.when(carries & kept, F.struct("ts", "value", "entity")))


def _drawn(carries: Column) -> Column:
    draw = ("draw.stratum", "draw.chance", "draw.lot", "draw.seen")
    return F.collect_list(F.when(carries, F.struct("ts", "value", *draw)))


CARRIED: dict[Content, Carried] = {
    "moments": Carried("double", _moments),
    "logs": Carried("double", _logs),
    "latest": Carried(_POINT, _latest_point),
    "points": Carried(f"array<{_POINT}>", _points),
    "sample": Carried(f"array<{_DRAWN}>", _drawn),
}
"""Every content, by its column's name."""

PANE_COLUMNS = (*NUMBERS, *CARRIED)


def numbers_of_points() -> list[Column]:
    """Return what every pane carries; points have it already, many in a row or one."""
    return [
        F.sum("sum").alias("sum"),
        F.sum("count").alias("count"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
    ]


def of_points(contents: Sequence[Collection[Content]]) -> list[Column]:
    """Return what panes carry beside numbers; ``contents`` are those of each route."""
    wanted = set().union(*contents)
    return [
        carried.of_points(_among(contents, name)).alias(name)
        for name, carried in CARRIED.items()
        if name in wanted
    ]


def missing_in_panes(columns: Collection[str]) -> list[Column]:
    """Return, empty, what panes with these columns do not carry."""
    return [
        F.lit(None).cast(carried.kind).alias(name)
        for name, carried in CARRIED.items()
        if name not in columns
    ]


def _among(contents: Sequence[Collection[Content]], name: Content) -> Column:
    chosen = [str(route) for route, each in enumerate(contents) if name in each]
    return F.expr(f"route in ({', '.join(chosen)})")
