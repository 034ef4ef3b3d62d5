"""How Spark makes what panes carry from points, and what windows carry from panes.

Count, sum, least and greatest are always there. The rest is made only where a plan has it, and
only for the panes and windows that carry it: a list of points costs more than four numbers.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from mistbow.plan.contents import Content

_POINT = "struct<ts:bigint,value:double,entity:string>"
_DRAWN = "struct<ts:bigint,value:double,stratum:string,chance:double,lot:double,seen:bigint>"
NUMBERS = ("sum", "count", "min", "max")


@dataclass(frozen=True, slots=True)
class Carried:
    """A content's column: its type in panes, and how it is made of points and of panes.

    ``of_points`` takes the condition under which a point's pane carries it, ``of_panes`` that
    under which a pane's window does.
    """

    in_panes: str
    of_points: Callable[[Column], Column]
    of_panes: Callable[[Column], Column]


def _moments(carries: Column) -> Column:
    value = F.when(carries, F.col("value"))
    return F.var_pop(value) * F.count(value)


def _list_of_moments(carries: Column) -> Column:
    some = F.col("count") > 0
    return F.collect_list(F.when(carries & some, F.struct("count", "sum", "moments")))


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
    "moments": Carried(
        in_panes="double",
        of_points=_moments,
        of_panes=_list_of_moments,
    ),
    "logs": Carried(
        in_panes="double",
        of_points=_logs,
        of_panes=lambda carries: F.sum(F.when(carries, F.col("logs"))),
    ),
    "latest": Carried(
        in_panes=_POINT,
        of_points=_latest_point,
        of_panes=lambda carries: F.max(F.when(carries, F.col("latest"))),
    ),
    "points": Carried(
        in_panes=f"array<{_POINT}>",
        of_points=_points,
        of_panes=lambda carries: F.flatten(F.collect_list(F.when(carries, F.col("points")))),
    ),
    "sample": Carried(
        in_panes=f"array<{_DRAWN}>",
        of_points=_drawn,
        of_panes=lambda carries: F.flatten(F.collect_list(F.when(carries, F.col("sample")))),
    ),
}
"""Every content, by its column's name."""

PANE_COLUMNS = (*NUMBERS, *CARRIED)


def numbers_of_points() -> list[Column]:
    """Return what every pane carries; points have it already, many in a row or one."""
    return numbers_of_panes()


def numbers_of_panes() -> list[Column]:
    """Return what every window carries."""
    return [
        F.sum("sum").alias("sum"),
        F.sum("count").alias("count"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
    ]


def of_points(contents: Sequence[Collection[Content]]) -> list[Column]:
    """Return what panes carry beside numbers; ``contents`` are those of each route."""
    return [
        carried.of_points(_among(contents, name)).alias(name) for name, carried in _made(contents)
    ]


def of_panes(contents: Sequence[Collection[Content]], places: str) -> list[Column]:
    """Return what windows carry beside numbers.

    ``contents`` are those of each window, whose place the column ``places`` tells.
    """
    return [
        carried.of_panes(_among(contents, name, places)).alias(name)
        for name, carried in _made(contents)
    ]


def missing_in_panes(contents: Iterable[Collection[Content]]) -> list[Column]:
    """Return, empty, the columns that no pane of these contents has."""
    return [_nothing(name, carried.in_panes) for name, carried in _others(contents)]


def _among(contents: Sequence[Collection[Content]], name: Content, places: str = "route") -> Column:
    chosen = [str(place) for place, each in enumerate(contents) if name in each]
    return F.expr(f"{places} in ({', '.join(chosen)})")


def _made(contents: Iterable[Collection[Content]]) -> list[tuple[Content, Carried]]:
    wanted = set().union(*contents)
    return [(name, carried) for name, carried in CARRIED.items() if name in wanted]


def _others(contents: Iterable[Collection[Content]]) -> list[tuple[Content, Carried]]:
    wanted = set().union(*contents)
    return [(name, carried) for name, carried in CARRIED.items() if name not in wanted]


def _nothing(name: str, kind: str) -> Column:
    return F.lit(None).cast(kind).alias(name)
