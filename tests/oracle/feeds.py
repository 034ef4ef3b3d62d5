"""Random feeds: streams with random columns, the points of the streams, and insights over them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from analytics.plan.attributes import canonical
from analytics.plan.feeds import Feed
from analytics_enabler.semantics import check
from grammar import ast, parse
from tests.oracle.trials import Case
from tests.support.points import Row

NAME = "app/rows"

_ROWS = 60
_STEP_MS = 200
_TEXT, _WHOLE, _FLOAT = pa.string(), pa.int64(), pa.float64()
_WORDS = (_TEXT, pa.large_string(), pa.dictionary(pa.int32(), _TEXT))
_NUMBERS = (_FLOAT, pa.int32(), pa.uint8(), pa.decimal128(8, 2))
_NODES = ("node", "node_id", "fogNodeId")
_TIMES = (
    _WHOLE, pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", tz="Europe/Berlin"),
)  # fmt: skip


@dataclass(frozen=True)
class Fed:
    """The definition of a stream ``f``, and the stream's rows."""

    definition: str
    table: pa.Table

    @cached_property
    def rows(self) -> list[Row]:
        """The points that the rows represent, as ``docs/language.md`` defines them."""
        (statement,) = parse(self.definition).statements
        assert isinstance(statement, ast.StreamDefinition)
        given = {
            each.key: tuple(one.value for one in each.values if isinstance(one, ast.Text))
            for each in statement.settings
        }
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("set timezone = 'UTC'")
            connection.register("given", self.table)
            columns = connection.execute("describe given").fetchall()
            types = {name: kind for name, kind, *_ in columns}
            fetched = connection.execute(_points_of(types, given)).fetchall()
        return [
            Row(metric, entity, ts, value, -1, msgspec.json.decode(attributes))
            for metric, entity, ts, value, attributes in fetched
        ]

    @cached_property
    def attributes(self) -> set[str]:
        """The attributes that at least one point has."""
        return {"entityID"}.union(*(row.attributes for row in self.rows))

    @property
    def come(self) -> list[Row]:
        """The same points as ``rows``, because no point is late."""
        return self.rows


def cases_of(fed: Fed, some: Sequence[str]) -> tuple[list[Case], Feed]:
    """Return a case for each text without errors, and the feed that the texts read.

    ``some``: texts of insights over the stream.
    """
    found: list[Case] = []
    for number, text in enumerate(some):
        whole = f"{fed.definition};\nq = {text}"
        checked = check(whole, frozenset(), schemas={(None, NAME): fed.table.schema})
        for one in checked.definitions if checked.ok else ():
            insights = (one.deployed(f"{number}.q", 0),)
            found.append(Case(number, whole, fed, 0, insights, (one.options,)))
            feed = one.feed
    assert feed is not None
    return found, feed


def _points_of(types: dict[str, str], given: dict[str, tuple[str, ...]]) -> str:
    (time,) = given.get("time", ("ts",))
    entity, metric = given.get("entity"), given.get("metric")
    numbers = [name for name, kind in types.items() if _is_number(kind)]
    names = given.get("attributes") or [
        name
        for name, kind in types.items()
        if kind in ("VARCHAR", "BOOLEAN") and [name] not in map(list, given.values())
    ]
    ts = time if _is_number(types[time]) else f"epoch_ms({time})"
    pairs = ", ".join(f"'{canonical(name)}', {_attribute(name, types[name])}" for name in names)
    common = (
        f"{f'{entity[0]}::varchar' if entity else repr(NAME)}, {ts}::bigint as ts, "
        "{value}::double as value, "
        f"json_merge_patch('{{{{}}}}', json_object({pairs}))::varchar from given "
        "where ts is not null and isfinite(value)"
    )
    if metric:
        (value,) = given["value"]
        return f"select {metric[0]}, {common.format(value=value)} and {metric[0]} is not null"
    taken = (time, *(entity or ()))
    selected = [
        f"select '{name}', {common.format(value=name)}" for name in numbers if name not in taken
    ]
    return " union all ".join(selected)


def _is_number(kind: str) -> bool:
    return kind in ("BIGINT", "INTEGER", "UTINYINT", "DOUBLE") or kind.startswith("DECIMAL")


def _attribute(name: str, kind: str) -> str:
    if not _is_number(kind):
        return name
    return f"case when isfinite({name}::double) then {name}::double end"


@st.composite
def _feeds(draw: st.DrawFn) -> Fed:
    """Draw a stream with columns of various types, and the roles of the columns."""
    chance = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311 - drawn by Hypothesis
    settings = {"name": f'"{NAME}"'}
    time = draw(st.sampled_from(["ts", "seen"]))
    if time != "ts":
        settings["time"] = f'"{time}"'
    columns = {time: _times(chance, draw(st.sampled_from(_TIMES)))}
    who, node = draw(st.sampled_from(["who", "entity"])), draw(st.sampled_from(_NODES))
    columns[who] = _some(chance, _WORDS[0], ["e1", "e2", "e3"])
    if draw(st.booleans()):
        settings["entity"] = f'"{who}"'
    columns[node] = _some(chance, draw(st.sampled_from(_WORDS)), ["a", "n", None])
    columns["place"] = _some(chance, draw(st.sampled_from(_WORDS)), ["a", "b", None])
    columns["dry"] = _some(chance, pa.bool_(), [True, False, None])
    columns["level"] = _some(chance, draw(st.sampled_from((_FLOAT, pa.int32()))), [1, 2, None])
    if draw(st.booleans()):
        columns["what"] = _some(chance, draw(st.sampled_from(_WORDS)), ["x", "y", "x", None])
        columns["number"] = _numbers(chance, draw(st.sampled_from(_NUMBERS)))
        settings |= {"metric": '"what"', "value": '"number"'}
    else:
        columns |= {name: _numbers(chance, draw(st.sampled_from(_NUMBERS))) for name in "xy"}
    if draw(st.booleans()):
        settings["attributes"] = f'("place", "dry", "level", "{node}")'
    settings_text = ", ".join(f"{key}={value}" for key, value in settings.items())
    return Fed(f"f: STREAM FROM stream({settings_text})", pa.table(columns))


def _times(chance: random.Random, kind: pa.DataType) -> pa.Array:
    steps = [_STEP_MS * number + chance.choice([0, 0, 1, 70]) for number in range(1, _ROWS + 1)]
    in_order: list[int | None] = [None if chance.random() < 0.05 else step for step in steps]
    scale = 1000 if kind in _TIMES[2:] else 1
    return pa.array([None if ms is None else scale * ms for ms in in_order], _WHOLE).cast(kind)


def _some(chance: random.Random, kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.array([chance.choice(values) for _ in range(_ROWS)], plain).cast(kind)


def _numbers(chance: random.Random, kind: pa.DataType) -> pa.Array:
    values = [chance.choice([None, *range(1, 12)]) for _ in range(_ROWS)]
    if kind == _FLOAT:
        odd = (float("nan"), float("inf"))
        return pa.array([chance.choice(odd) if v == 11 else v and v / 4 for v in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([v and Decimal(v) / 4 for v in values], kind)
    return pa.array(values, kind)


_METRICS = st.sampled_from([
    "{} FROM (f)", "{} FROM (f)", "{} FROM (f) WHEN > 1", '{} FROM (f) WHEN place == "a"',
    "{} FROM (f) WHEN dry != true", "{} FROM (f) WHEN level >= 1",
    "{} FROM (f) WHEN NOT dry == place", '{} FROM (f) WHEN node_id == "n"',
])  # fmt: skip
_VALUES = st.sampled_from([
    "{}", "SUM({}, 2 s)", "AVG({}, 3 s)", "COUNT({}, 1 s)", "MEDIAN({}, 2 s) + MAX({}, 1 s)",
    "RUNNING_MAX({})", "DIFF({})", "trimmed_mean({}, 4 s)", "TOP_K[2]({}, 2 s)",
])  # fmt: skip
_ENDS = st.sampled_from([
    "", "", " WHEN > 2", ' WHEN place IN ("b")', " WHEN dry == false", " WHEN level NOT IN (2)",
    ' WHEN entity == "e1"', ' WHEN node != "a"',
])  # fmt: skip
_RHYTHMS = st.sampled_from([" EVERY 1 s", " EVERY 500 MS", "", " EVERY 3 POINTS"])
_ATTRIBUTES = ("place", "dry", "level", "entity", "node", "fog_node_id")


def trials(count: int) -> st.SearchStrategy[tuple[Fed, list[str]]]:
    """Return a strategy that draws a stream, and ``count`` different insights over the stream."""

    def tried(fed: Fed) -> st.SearchStrategy[tuple[Fed, list[str]]]:
        some = st.lists(_texts(fed), min_size=count, max_size=count, unique=True)
        return st.tuples(st.just(fed), some)

    return _feeds().flatmap(tried)


@st.composite
def _texts(draw: st.DrawFn, fed: Fed) -> str:
    """Draw an insight over the stream ``f``, without its name."""
    metrics = st.builds(str.format, _METRICS, st.sampled_from("xy"))
    by = draw(st.lists(st.sampled_from(_ATTRIBUTES), max_size=2, unique=True))
    attribute = draw(st.sampled_from([None, None, *_ATTRIBUTES]))
    if attribute and "metric" in fed.definition and canonical(attribute) not in fed.attributes:
        by.append(attribute)  # without BY, the name might be a metric's
    keys = f" BY {', '.join(by)}" if by else ""
    if attribute:
        chosen_metric = draw(metrics)
        condition = (
            f"MAX({chosen_metric}, 2 s) > 3" if "WHEN" in chosen_metric else f"{chosen_metric} > 1"
        )
        return f"COMPUTE {attribute}{keys} WHEN {condition}{draw(_RHYTHMS)}"
    form = draw(_VALUES)
    filled = [f"({one})" if form == "{}" else one for one in (draw(metrics), draw(metrics))]
    return f"COMPUTE {form.format(*filled)}{keys}{draw(_ENDS)}{draw(_RHYTHMS)}"
