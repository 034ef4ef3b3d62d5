"""Strategies of expressions and conditions of the insight language.

Only *exact* values are divisors, are compared or correlated with each other, or stand under a
root, so rounding never decides whether a result exists. An exact value is equal to the last bit in
SQL and in the suite. Other values are compared only with numbers that they hardly ever equal.
"""

from dataclasses import dataclass
from enum import IntEnum

from hypothesis import strategies as st

from tests.oracle.data import ENTITIES, METRICS


class Exactness(IntEnum):
    """How well the oracle's value of an expression agrees with the suite's value."""

    SUMS = 0
    """Equal values with few digits, whose sums are exact too."""
    SAME = 1
    """Values that are equal to the last bit if they are computed by the same steps."""
    ROUNDED = 2
    """Values that are equal except for rounding."""


@dataclass(frozen=True)
class DrawnExpression:
    """An expression, and the exactness of its values.

    ``wide``: whether the keys of the values include the attribute ``further`` of the query.
    """

    text: str
    exact: Exactness
    wide: bool = False


@dataclass(frozen=True)
class QueryContext:
    """The properties of a whole query.

    ``further``: the attribute that an inner BY may add; ``every_ms``: the interval of EVERY, or
    None if the values are at points; ``sample``: the sampling option, or None; ``counted``: whether
    the values are at every n-th point.
    """

    by: tuple[str, ...]
    further: str
    every_ms: int | None
    sample: "_Sample | None" = None
    counted: bool = False


@dataclass(frozen=True)
class _Sample:
    """A sampling option, and the functions whose results over the sample are exact."""

    option: str
    functions: tuple[str, ...]


ATTRIBUTES = ("region", "node", "site", "rack", "zone", "entity", "spare")
DEFINITIONS = {
    "north": 'north: STREAM FROM storage(region="north")',
    "some": 'some: STREAM FROM storage(node=("n1", "n3"), zone=("a", "b"))',
    "place": 'place: STREAM FROM position(metric="x", latitude="rack", longitude="zone")',
    "corner": 'corner: STREAM FROM position(metric="y", latitude="rack", longitude="rack")',
    "share": "FUNCTION share(part, whole) { 100 * part / whole }",
    "above": "FUNCTION above(metric, limit) { COUNT(metric WHEN > limit, 3 SECONDS) }",
    "of_one": "FUNCTION of_one(metric, host) { AVG(metric FROM (host), 4 s) + ABOVE(metric, 1) }",
    "best": "FUNCTION best(metric, attribute, k) { TOP_K[k](SUM(metric, 2 s) BY attribute) }",
    "few": "FUNCTION few(m) { (1, 2, -3, 0.25) }",
    "usual": "FUNCTION usual(metric, k) { RUNNING_MEAN(metric) + k * RUNNING_SDEV(metric) }",
}
CALLS = {"of_one": "above"}

_SUMS = ("SUM", "COUNT", "MIN", "MAX", "MEDIAN", "MODE", "TOP_K[2]", "TOP_K", "HISTOGRAM[3]")
_ROUNDED = ("SDEV", "VARIANCE", "GEOMETRIC_MEAN", "PERCENTILE[90]", "PERCENTILE[12.5]")
_ROUNDED_OF_POINTS = (*_ROUNDED, "RATE", "RATE")
_SO_FAR = ("RUNNING_COUNT", "RUNNING_MAX", "RUNNING_MIN", "DIFF")
_SO_FAR_ROUNDED = (
    "RUNNING_AVG",
    "RUNNING_STD",
    "EWMA[0.3]",
    "EWMA[1]",
    "PEWMA[0.2]",
    "EWMA",
    "PEWMA",
)
SAMPLES = (
    _Sample("SAMPLE 0.3", ("COUNT",)),
    _Sample("SAMPLE 100000", ("SUM", "AVG", "COUNT", "MIN", "MAX")),
    _Sample("CONFIDENCE 0.9 AND MAX_ERROR 0.1", ("SUM", "AVG", "COUNT")),
    _Sample("MAX_ERROR 0.1 AND AWARENESS ON ACCURACY", ("SUM", "AVG", "COUNT")),
)
"""Sampling options, and the functions that are exact with them.

COUNT is always exact. The other functions are exact because the sampling designs select all points
of a source that has no points of a much earlier time.
"""
_ACCUMULATING = ("RUNNING", "EWMA", "DIFF", "USUAL")
SHIFT_MS = 900
DAILY_MS = 60_000
"""The interval (ms) that stands for EVERY … AT, whose times are one minute after midnight GMT."""
_WINDOWS = ("1 s", "2 SECONDS", "3 s", "5 SECONDS", "7 s", "10 s", "20 s", "1500 MS", "2700 MS")
_numbers = st.sampled_from(["0", "1", "2", "3.5", "-2", "0.25", "10", "1e1"])
_odd_numbers = st.sampled_from(["1.3717", "0.0417", "-0.7731", "17.0931", "41.7193"])
_orders = st.sampled_from([">", ">=", "<", "<=", "!=", "<>", ">", ">=", "<", "==", "="])
_strict_orders = st.sampled_from([">", "<"])
_texts = st.sampled_from(
    ["north", "n1", "s2", "b", '"a"', '"b"', '"r"', '"north"', '"n1"', '"s2"', '"e1"']
)
_lists = st.sampled_from(
    ["(a, r)", "(n1, n3, 2)", '("a", "b")', "(1, 2)", '(1, "r")', "(true)", '("n1", "n2")', "(2)"]
)
_listing = st.sampled_from(["IN", "NOT IN"])


_forms = st.sampled_from([
    "{}", "{}", "{}", "({} AND {})", "({} OR {})", "NOT ({})", "NOT ({} OR {})",
    "({} OR NOT ({} AND {}))", "(NOT ({}) AND {})",
])  # fmt: skip


@st.composite
def joined(draw: st.DrawFn, conditions: st.SearchStrategy[str]) -> str:
    form = draw(_forms)
    return form.format(*(draw(conditions) for _ in range(form.count("{}"))))


_LIKELY = {
    "region": ('region == "north"', 'region != "south"', "region IN ('north', 'south')"),
    "node": ('node != "n1"', 'node NOT IN ("n2")', "node <> site"),
    "site": ('site = "s1"', 'site IN ("s1", "s2")', 'NOT site == "s2"'),
    "rack": ("rack >= 1", "rack NOT IN (2, 3)", "NOT rack == 1", 'rack IN (1, "r")'),
    "zone": (
        'zone != "b"',
        "zone IN letters(region)",
        "zone NOT IN letters(site)",
        "zone NOT IN letters(rack)",
        'zone IN ("a", "r")',
        "NOT zone == rack",
    ),
    "entity": ('entity != "e1"', 'entity IN ("e1", "e2", "e3")', 'entityID NOT IN ("e2")'),
    "spare": ("spare != true", "NOT spare == true", "spare IN (false)"),
}


def of_attributes(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    same = st.sampled_from(["==", "!="])
    likely = names.flatmap(lambda name: st.sampled_from(_LIKELY[name]))
    return st.one_of(
        likely,
        likely,
        likely,
        st.builds("{} {} {}".format, names, same, _texts),
        st.builds("{} {} {}".format, names, same, st.sampled_from(["true", "false"])),
        st.builds("{} {} {}".format, names, _orders, st.sampled_from(["1", "2"])),
        st.builds("{} {} {}".format, names, _listing, _lists),
        st.builds("{} {} {}".format, names, _orders, names),
    )


attribute = st.sampled_from(ATTRIBUTES)
_of_values = st.one_of(
    st.builds("{} {}".format, _orders, _numbers),
    st.builds("{} (1, 2, -3)".format, _listing),
    st.builds("{} few(k)".format, _listing),
)
_of_points = joined(_of_values | of_attributes(attribute))
_members = st.sampled_from([*ENTITIES, "north", "some", "e1, e3", "north, e2", "some, north"])


@st.composite
def _metrics(draw: st.DrawFn, *, of_function: bool = False) -> str:
    metric = draw(st.sampled_from(METRICS))
    if draw(st.integers(0, 5)) == 0 and not of_function:
        metric += f" FROM ({draw(_members)})"
    if draw(st.integers(0, 4)) == 0:
        metric += f" WHEN {draw(_of_points)}"
    return metric


@st.composite
def _windows(draw: st.DrawFn, frame: QueryContext) -> str:
    if frame.every_ms and draw(st.integers(0, 4)) == 0:
        return ""
    if frame.counted and draw(st.integers(0, 2)):
        return ""
    if frame.every_ms == DAILY_MS:
        return draw(st.sampled_from([", 1 DAY", ", 45 s", ", 50 MINUTES"]))
    window = f", {draw(st.sampled_from(_WINDOWS))}"
    if draw(st.integers(0, 3)) == 0:
        shifts = st.integers(1, 3).map((frame.every_ms or SHIFT_MS).__mul__)
        window += f", {draw(shifts | st.integers(1, 40).map((100).__mul__))} MS"
    return window


@st.composite
def _aggregates(draw: st.DrawFn, frame: QueryContext) -> DrawnExpression:
    kind = draw(st.integers(0, 28))
    window = draw(_windows(frame))
    metric = draw(_metrics())
    if frame.sample:
        function = draw(st.sampled_from(frame.sample.functions))
        exact = Exactness.ROUNDED if function in ("SUM", "AVG") else Exactness.SUMS
        return DrawnExpression(f"{function}({metric}{window})", exact)
    if kind == 28 and (frame.every_ms or 0) >= 2000:
        return DrawnExpression(f"FORECAST[2]({metric}, 10 s)", Exactness.ROUNDED)
    kind %= 14
    if kind == 0:
        return DrawnExpression(f"({metric})" if " " in metric else metric, Exactness.SUMS)
    if kind == 1:
        return DrawnExpression(
            f"CORRELATION({metric}, {draw(_metrics())}{window})", Exactness.ROUNDED
        )
    if kind in (2, 3):
        return DrawnExpression(f"AVG({metric}{window})", Exactness.SAME)
    if kind in (4, 5):
        function = draw(st.sampled_from(_ROUNDED_OF_POINTS))
        return DrawnExpression(f"{function}({metric}{window})", Exactness.ROUNDED)
    if kind == 6:
        return draw(_own_functions(frame) | _operators(metric, window))
    if kind == 7:
        return DrawnExpression(f"OUTLIER_DETECTION({metric}{window})", Exactness.SUMS)
    if kind == 8:
        return DrawnExpression(f"{draw(st.sampled_from(_SO_FAR))}({metric})", Exactness.SUMS)
    if kind == 9:
        return DrawnExpression(
            f"{draw(st.sampled_from(_SO_FAR_ROUNDED))}({metric})", Exactness.ROUNDED
        )
    return DrawnExpression(f"{draw(st.sampled_from(_SUMS))}({metric}{window})", Exactness.SUMS)


@st.composite
def _operators(draw: st.DrawFn, metric: str, window: str) -> DrawnExpression:
    """Draw a call of an operator of the example package."""
    if draw(st.integers(0, 2)) == 0:
        return DrawnExpression(f"GAP({metric}, {draw(_metrics())}{window})", Exactness.SUMS)
    share = draw(st.sampled_from(["", "[0.2]", "[0.34]", "[0.5]"]))
    return DrawnExpression(f"trimmed_mean{share}({metric}{window})", Exactness.SAME)


@st.composite
def _own_functions(draw: st.DrawFn, frame: QueryContext) -> DrawnExpression:
    metric = draw(_metrics(of_function=True))
    match draw(st.integers(0, 4 if frame.every_ms else 3)):
        case 0:
            return DrawnExpression(f"ABOVE({metric}, {draw(_numbers)})", Exactness.SUMS)
        case 1:
            return DrawnExpression(
                f"OF_ONE({metric}, {draw(st.sampled_from(ENTITIES))})", Exactness.SAME
            )
        case 2:
            return DrawnExpression("share(SUM(x, 5 s), COUNT(y, 5 s))", Exactness.SAME)
        case 3:
            return DrawnExpression(f"usual({metric}, {draw(_odd_numbers)})", Exactness.ROUNDED)
        case _:
            return DrawnExpression(f"best({metric}, {draw(attribute)}, 2)", Exactness.SUMS)


@st.composite
def _scoped(draw: st.DrawFn, frame: QueryContext, depth: int) -> DrawnExpression:
    """Draw an expression in parentheses with a BY, a WHEN, or both."""
    inner = draw(pieces(frame, depth - 1))
    wide = inner.wide or draw(st.booleans())
    by = f" BY {frame.further}" if wide and not inner.wide else ""
    keys = (*frame.by, *([frame.further] if wide else []))
    when = draw(st.just("") | of_results(inner, keys, frame).map(" WHEN {}".format))
    if not by and not when:
        when = f" WHEN {draw(_elided(inner))}"
    return DrawnExpression(f"({inner.text}{by}{when})", inner.exact, wide)


@st.composite
def _reductions(draw: st.DrawFn, frame: QueryContext, depth: int) -> DrawnExpression:
    """Draw an aggregate function of aggregates."""
    inner = draw(pieces(frame, depth - 1))
    by = "" if inner.wide else f" BY {frame.further}"
    when = draw(st.just("") | _elided(inner).map(" WHEN {}".format))
    operand = f"({inner.text}){by}{when}" if by or when else inner.text
    if inner.exact is Exactness.SUMS:
        if draw(st.integers(0, 4)) == 0:
            function = draw(st.sampled_from(("AVG", "TRIMMED_MEAN[0.3]", *_ROUNDED)))
            exact = Exactness.ROUNDED if function in _ROUNDED else Exactness.SAME
        else:
            function, exact = draw(st.sampled_from(_SUMS)), Exactness.SUMS
    elif inner.exact is Exactness.SAME:
        function = draw(st.sampled_from(["MIN", "MAX", "COUNT", "TOP_K[2]", "MODE"]))
        exact = Exactness.SUMS if function == "COUNT" else Exactness.SAME
    else:
        function = draw(st.sampled_from(["SUM", "AVG", "MIN", "MAX", "MEDIAN", "TOP_K[3]"]))
        exact = Exactness.ROUNDED
    return DrawnExpression(f"{function}({operand})", exact)


@st.composite
def _tick_series(draw: st.DrawFn, frame: QueryContext, depth: int) -> DrawnExpression:
    """Draw a function over the values that an expression has at several ticks."""
    inner = draw(pieces(frame, depth - 1))
    if frame.sample or any(word in inner.text.upper() for word in _ACCUMULATING):
        return inner
    window = f"{draw(st.integers(1, 4)) * (frame.every_ms or 1000)} MS"
    if draw(st.integers(0, 3)) == 0:
        window += f", {frame.every_ms} MS"
    if not inner.wide and inner.exact < Exactness.ROUNDED and draw(st.integers(0, 2)) == 0:
        other = draw(_aggregates(frame))
        if other.exact < Exactness.ROUNDED and not any(
            word in other.text.upper() for word in _ACCUMULATING
        ):
            text = f"CORRELATION(({inner.text}) + 0, {other.text}, {window})"
            return DrawnExpression(text, Exactness.ROUNDED)
    if inner.exact is Exactness.SUMS and draw(st.integers(0, 3)) == 0:
        function, exact = draw(st.sampled_from(("AVG", *_ROUNDED_OF_POINTS))), Exactness.ROUNDED
    elif inner.exact is Exactness.SUMS:
        function, exact = draw(st.sampled_from(_SUMS)), Exactness.SUMS
    elif inner.exact is Exactness.SAME:
        function = draw(st.sampled_from(["MIN", "MAX", "COUNT", "TOP_K[2]", "MODE"]))
        exact = Exactness.SUMS if function == "COUNT" else Exactness.SAME
    else:
        function = draw(st.sampled_from(["SUM", "AVG", "MIN", "MAX", "MEDIAN", "TOP_K[3]"]))
        exact = Exactness.ROUNDED
    return DrawnExpression(f"{function}(({inner.text}) + 0, {window})", exact)


@st.composite
def _keyed_sums(draw: st.DrawFn, frame: QueryContext) -> DrawnExpression:
    """Draw an operator on aggregates with a BY of their own, without parentheses."""
    left, right = draw(_aggregates(frame)), draw(_aggregates(frame))
    by, others = f" BY {frame.further}", draw(st.sampled_from(["", f" BY {frame.further}"]))
    operators = "+-*/" if right.exact < Exactness.ROUNDED else "+-*"
    operator = draw(st.sampled_from(operators))
    exact = max(left.exact, right.exact, Exactness.SAME if operator in "*/" else Exactness.SUMS)
    text = f"({left.text}{by} {operator} {right.text}{others})"
    return DrawnExpression(text, exact, wide=True)


@st.composite
def _singles(draw: st.DrawFn, frame: QueryContext, depth: int) -> DrawnExpression:
    inner = draw(pieces(frame, depth - 1))
    if inner.exact is Exactness.ROUNDED:
        return DrawnExpression(f"ABS({inner.text})", Exactness.ROUNDED, inner.wide)
    match draw(st.integers(0, 5)):
        case 0:
            return DrawnExpression(f"LOG({inner.text})", Exactness.ROUNDED, inner.wide)
        case 1:
            return DrawnExpression(f"EXP(LOG({inner.text}) / 10)", Exactness.ROUNDED, inner.wide)
        case 2:
            return DrawnExpression(f"SQRT({inner.text})", Exactness.SAME, inner.wide)
        case 3:
            return DrawnExpression(f"SQR({inner.text})", Exactness.SAME, inner.wide)
        case 4:
            return DrawnExpression(f"ABS({inner.text})", inner.exact, inner.wide)
        case _:
            return DrawnExpression(f"-({inner.text})", inner.exact, inner.wide)


@st.composite
def _sums(draw: st.DrawFn, frame: QueryContext, depth: int) -> DrawnExpression:
    left = draw(pieces(frame, depth - 1))
    number = draw(st.none() | _numbers)
    if number is not None:
        right = DrawnExpression(number, Exactness.SUMS)
        if draw(st.booleans()) and number != "0":
            left, right = right, left
    else:
        right = draw(pieces(frame, depth - 1))
    operators = "+-*/" if right.exact < Exactness.ROUNDED and right.text != "0" else "+-*"
    operator = draw(st.sampled_from(operators))
    exact = max(left.exact, right.exact, Exactness.SAME if operator in "*/" else Exactness.SUMS)
    wide = left.wide or right.wide
    if draw(st.integers(0, 5)) == 0:
        name = {"+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV"}[operator]
        return DrawnExpression(f"{name}({left.text}, {right.text})", exact, wide)
    return DrawnExpression(f"({left.text} {operator} {right.text})", exact, wide)


@st.composite
def of_values_alone(draw: st.DrawFn, frame: QueryContext) -> str:
    """Draw a condition on values, and sometimes on attributes, in which no side is elided."""
    values = _aggregates(frame)
    exact = values.filter(lambda one: one.exact is not Exactness.ROUNDED).map(_text)
    rounded = values.filter(lambda one: one.exact is Exactness.ROUNDED).map(_text)
    plain_conditions = st.one_of(
        st.builds("{} {} {}".format, st.sampled_from(METRICS), _orders, _numbers),
        st.builds("{} {} {}".format, exact, _orders, _numbers | exact),
        st.builds("{} {} {}".format, rounded, _strict_orders, _odd_numbers),
        st.builds("{} {} {}".format, _geohashes, _listing, st.just("('s', 'e')")),
        st.sampled_from(METRICS).map(lambda metric: f"{metric} > USUAL({metric}, -0.7731)"),
    )
    terms = [draw(joined(plain_conditions))]
    if draw(st.integers(0, 3)) == 0:
        terms.insert(draw(st.integers(0, 1)), draw(joined(of_attributes(attribute))))
    return " AND ".join(terms)


_POSITIONS = (
    "place", "corner", "corner", "x", "corner WHEN > 0", 'place WHEN region != "south"',
    "corner FROM (north)",
)  # fmt: skip


@st.composite
def geohash_calls(draw: st.DrawFn, frame: QueryContext) -> DrawnExpression:
    """Draw a call of GEOHASH, whose arguments are mostly valid degrees."""
    if draw(st.integers(0, 3)) == 0:
        characters = draw(st.integers(1, 12))
        position = draw(st.sampled_from(_POSITIONS))
        return DrawnExpression(f"GEOHASH[{characters}]({position})", Exactness.ROUNDED)
    exact = pieces(frame, 1).filter(lambda one: one.exact is not Exactness.ROUNDED)
    latitude, longitude = draw(exact), draw(exact)
    text = f"GEOHASH[{draw(st.integers(1, 12))}]({latitude.text} / 4, {longitude.text})"
    return DrawnExpression(text, Exactness.ROUNDED, latitude.wide or longitude.wide)


alike = st.sampled_from(['== "s"', 'IN ("s0", "eb", "e")', '!= "7z"', 'NOT IN ("k")'])
_geohashes = st.sampled_from(["GEOHASH[1](x, y)", "GEOHASH[1](MAX(x, 3 s) / 4, AVG(z, 5 s))"])


def _text(piece: DrawnExpression) -> str:
    return piece.text


def pieces(frame: QueryContext, depth: int) -> st.SearchStrategy[DrawnExpression]:
    if depth <= 0:
        return _aggregates(frame)
    deeper = [_sums(frame, depth), _sums(frame, depth), _singles(frame, depth),
              _scoped(frame, depth), _keyed_sums(frame)]  # fmt: skip
    if frame.every_ms:  # at a point, there is but its own key
        deeper.append(_reductions(frame, depth))
    if frame.every_ms and frame.every_ms != DAILY_MS:
        deeper.append(_tick_series(frame, depth))
    return st.one_of(_aggregates(frame), *deeper)


def _elided(piece: DrawnExpression) -> st.SearchStrategy[str]:
    if piece.exact is Exactness.ROUNDED:
        return st.builds("{} {}".format, _strict_orders, _odd_numbers)
    return st.builds("{} {}".format, _orders, _numbers | _odd_numbers)


@st.composite
def of_results(
    draw: st.DrawFn, piece: DrawnExpression, keys: tuple[str, ...], frame: QueryContext
) -> str:
    """Draw a condition on the results of an expression, on points, or on results and points."""
    of_results = _elided(piece)
    if keys:
        of_results |= of_attributes(st.sampled_from(keys))
    if piece.exact is not Exactness.ROUNDED:
        exact = _aggregates(frame).filter(lambda one: one.exact is not Exactness.ROUNDED)
        values = exact.map(lambda one: one.text)
        of_results |= st.builds("{} {}".format, _orders, values)
        of_results |= st.builds("{} > {}".format, values, values)
        if not frame.sample:
            of_results |= st.sampled_from(METRICS).map("> USUAL({}, 1.3717)".format)
            of_results |= st.builds('{} {} "s"'.format, _geohashes, st.sampled_from(["==", "!="]))
    terms = [draw(joined(of_results))] if draw(st.integers(0, 3)) else []
    others = [name for name in ATTRIBUTES if name not in keys]
    if not terms or draw(st.integers(0, 3)) == 0:
        terms.append(draw(joined(of_attributes(st.sampled_from(others)))))
    return " AND ".join(terms)
