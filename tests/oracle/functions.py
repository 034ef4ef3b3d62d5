"""The formulas of functions in SQL: over lists of values, and over single values.

In a formula, ``l`` is the sorted list of values. If ``of_points`` is true, ``p`` is the list of
points, the oldest point first.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analytics_worker.operators.forecast import forecast
from analytics_worker.operators.points import Floats
from mistbow.sampling.pewma import Pewma

_Parameters = Sequence[float]

_LOGS = "list_avg(list_transform(l, lambda x: ln(x)))"
_OUTLIERS = """list_filter(l, lambda x:
    len(list_filter(l, lambda y: abs(x - y) <= {r})) - 1 < {k})"""
_RATE = """(select sum(increase / seconds) from (
    select sum(case when value < before then value else value - before end) as increase,
        (max(ts) - min(ts)) / 1000 as seconds
    from (
        select entity, ts, value, lag(value) over (partition by entity order by ts) as before
        from (
            select point.entity as entity, point.ts as ts, max(point.value) as value
            from (select unnest(p) as point) group by all
        )
    ) group by entity) where seconds > 0)"""
_EDGE = "(l[1] + {index} * ((l[-1] - l[1]) / {n}))"


@dataclass(frozen=True, slots=True)
class Formula:
    """The SQL of a function: its value, its list of values, and its bounds ``low`` and ``high``.

    ``size`` is an upper bound of the intermediate values, which determines the tolerance of
    rounding; in its SQL, ``mm`` is the largest input, and ``n`` is the number of inputs.
    """

    value: str
    values: str = "null::double[]"
    low: str = "null::double"
    high: str = "null::double"
    size: str = "mm"
    of_points: bool = False


_VALUES = "list_transform(p, lambda x: x.value)"


def _always(formula: Formula) -> Callable[[_Parameters], Formula]:
    return lambda _: formula


def _top_k(parameters: _Parameters) -> Formula:
    k = int(parameters[0])
    return Formula(f"list_reverse_sort(l)[least({k}, len(l))]", f"list_reverse_sort(l)[1:{k}]")


def _histogram(parameters: _Parameters) -> Formula:
    n = int(parameters[0])
    bins = []
    for index in range(n):
        low, high = (_EDGE.format(index=p, n=n) for p in (index, index + 1))
        until = "x <= l[-1]" if index == n - 1 else f"x < {high}"
        bins.append(f"len(list_filter(l, lambda x: x >= {low} and {until}))::double")
    alike = [*["0::double"] * (n - 1), "len(l)::double"]
    values = f"case when l[1] = l[-1] then [{', '.join(alike)}] else [{', '.join(bins)}] end"
    return Formula("len(l)", values, "l[1]", "l[-1]")


def _trimmed_mean(parameters: _Parameters) -> Formula:
    share = parameters[0] if parameters else 0.1
    cut = f"greatest(floor({share!r}::double * n), (n > 2)::int)::int"
    middle_values = f"l[{cut} + 1 : n - {cut}]"
    return Formula(f"list_aggregate({middle_values}, 'fsum') / len({middle_values})")


def _outliers(parameters: _Parameters) -> Formula:
    k, r = parameters
    odd = _OUTLIERS.format(k=int(k), r=r)
    return Formula(f"len({odd})", odd)


def _ewma(parameters: _Parameters) -> Formula:
    (alpha,) = parameters or (0.3,)
    step = f"lambda a, x: {alpha} * x + {1 - alpha} * a"
    return Formula(f"list_reduce({_VALUES}, {step})", of_points=True)


ACCUMULATED: dict[str, Callable[[_Parameters], Formula]] = {
    "RUNNING_COUNT": _always(Formula("len(l)")),
    "RUNNING_MEAN": _always(Formula("list_aggregate(l, 'fsum') / len(l)")),
    "RUNNING_MAX": _always(Formula("l[-1]")),
    "RUNNING_MIN": _always(Formula("l[1]")),
    "RUNNING_SDEV": _always(Formula("list_stddev_pop(l)")),
    "DIFF": _always(
        Formula("case when len(p) > 1 then p[-1].value - p[-2].value end", of_points=True)
    ),
    "EWMA": _ewma,
    "PEWMA": lambda parameters: Formula(
        f"pewma({_VALUES}, {(parameters or (0.3,))[0]})", of_points=True
    ),
}
"""Name of an accumulator -> function that returns the formula for given parameters."""

FORMULAS: dict[str, Callable[[_Parameters], Formula]] = ACCUMULATED | {
    "SUM": _always(Formula("list_aggregate(l, 'fsum')", size="mm * n")),
    "COUNT": _always(Formula("len(l)")),
    "MIN": _always(Formula("l[1]")),
    "MAX": _always(Formula("l[-1]")),
    "AVG": _always(Formula("list_aggregate(l, 'fsum') / len(l)")),
    "SDEV": _always(Formula("list_stddev_pop(l)")),
    "VARIANCE": _always(Formula("list_var_pop(l)", size="mm * mm")),
    "MEDIAN": _always(Formula("list_median(l)")),
    "MODE": _always(
        Formula("""(select x from (select unnest(l) as x)
                    group by x order by count(*) desc, x limit 1)""")
    ),
    "GEOMETRIC_MEAN": _always(Formula(f"case when l[1] > 0 then exp({_LOGS}) end")),
    "PERCENTILE": lambda parameters: Formula(
        f"list_aggregate(l, 'quantile_cont', {parameters[0] / 100})"
    ),
    "TOP_K": lambda parameters: _top_k(parameters or (10,)),
    "HISTOGRAM": _histogram,
    "OUTLIER_DETECTION": _outliers,
    "TRIMMED_MEAN": _trimmed_mean,
    "LATEST": _always(Formula("list_max(p).value", of_points=True)),
    "RATE": _always(Formula(_RATE, size="1000 * mm * n", of_points=True)),
    "FORECAST": lambda parameters: Formula(
        f"forecast(list_transform(p, lambda x: x.ts), list_transform(p, lambda x: x.value), "
        f"{int(parameters[0])})",
        of_points=True,
    ),
}
"""Name of a function -> function that returns the formula for given parameters.

``LATEST`` is the value of a metric without a function: of several latest points with the same time,
the greatest value. ``TRIMMED_MEAN`` is an operator of the newest version of the example package.
"""

_LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"

BOUNDED = frozenset({"SUM", "COUNT", "AVG"})
"""The functions whose results have bounds, which equal the value if all points are sampled."""

CORRELATION = """case when count(*) > 1
    and max(a.value) - min(a.value) > 1e-14 * max(abs(a.value))
    and max(b.value) - min(b.value) > 1e-14 * max(abs(b.value))
    then corr(a.value, b.value) end"""

SINGLE = {
    "SQRT": ("case when v >= 0 then sqrt(v) end", "m"),
    "ABS": ("abs(v)", "m"),
    "SQR": ("v * v", "m * m"),
    "LOG": ("case when v > 0 then ln(v) end", "1 + m / abs(v)"),
    "EXP": ("exp(v)", "exp(v) * (1 + m)"),
}
"""Function of a single value -> (SQL of its value, SQL of a bound of intermediate values)."""


def forecast_of_lists(ts: Sequence[int], values: Sequence[float], h: int) -> float | None:
    """Return the forecast by the worker's own operator, because DuckDB has no forecasts."""
    import numpy as np

    floats: Floats = np.array(values, np.float64)
    return forecast(np.array(ts, np.int64), floats, h)


def geohash_of(latitude: float | None, longitude: float | None, letters: int) -> str | None:
    """Return the geohash of a latitude and a longitude (degrees); None for invalid degrees."""
    if latitude is None or longitude is None:
        return None
    if abs(latitude) > 90 or abs(longitude) > 180:
        return None
    halves, number = [[-180.0, 180.0], [-90.0, 90.0]], 0
    for bit in range(5 * letters):
        degrees, half = (longitude, latitude)[bit % 2], halves[bit % 2]
        middle = sum(half) / 2
        half[degrees < middle] = middle
        number = 2 * number + (degrees >= middle)
    return "".join(_LETTERS[number >> 5 * index & 31] for index in reversed(range(letters)))


def derived_of(function: str, attribute: str | None) -> str | None:
    """Return what an operator of the example package derives, as JSON; ``attribute`` is JSON."""
    if attribute is None:
        return None
    value = json.loads(attribute)
    match function:
        case "IPTOCOUNTRY":
            numbers = str(value).split(".")
            countries = {"0": "CY", "1": "GR", "2": "FR", "3": "IT"}
            found = countries.get(numbers[1]) if len(numbers) == 4 else None
            return None if found is None else json.dumps(found)
        case "LEGALCOUNTRIES":
            legal = {"Zorba": "CY GR", "Amelie": "FR", "Cinema Paradiso": "IT FR"}
            return json.dumps(legal.get(str(value), "").split())
        case "ACCEPTEDCOSTS":
            return json.dumps({"east": [5, 7], "west": [6]}.get(str(value), []))
        case _:
            return json.dumps(list(value) if isinstance(value, str) else [])


def pewma_of_list(values: Sequence[float], alpha: float) -> float:
    """Return the PEWMA of all values by the suite's own code, because SQL has no PEWMA."""
    import numpy as np

    _, averages = Pewma(alpha).advance(np.array(values, np.float64))
    return float(averages[-1])
