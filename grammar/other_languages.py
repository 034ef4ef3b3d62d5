"""Hints for words and functions of other languages: SQL, PromQL, InfluxQL, Flux and KQL."""

import re

_WINDOW = "Write the window in the function: `AVG(metric, 5 MINUTES)`."
_TEXTS = 'Texts are compared as a whole: write `==`, or `IN ("a", "b")`.'
_MISSING = "A missing value has no result, so there is no NULL to compare or to replace."
EACH_HINT = "Write an insight for each value: `a = COMPUTE …; b = COMPUTE …`."
_GREATEST = "Results have no order: `TOP_K[5](AVG(x) BY node)` gives the greatest values."
_CASES = "There is no CASE or IF: write an insight with a WHEN for each case."
_KEYS = "`COUNT(AVG(x, 1 MINUTE) BY node)` counts the keys that have values."
_ROUNDING = "There is no rounding: round results where you show them."
_BY_TIME = "Windows end at ticks: write the window in the function, and the interval after EVERY."
_CHANGE = (
    "`DIFF(x) BY entity` is the change since the value before, and `AVG(x, 1 MINUTE) - "
    "AVG(x, 1 MINUTE, 1 MINUTE)` the change in a minute. Only for a counter, write `RATE`."
)
_COUNTER = "`RATE(x, 5 MINUTES)` is the increase of a counter per second."
_EARLIER = "`DIFF(x)` is the difference from the value before; an offset gives an earlier window."

NULL_HINT = (
    "There is no NULL: a missing value or attribute satisfies no comparison, and "
    '`region != ""` matches only points that have a region.'
)

WORDS: dict[str, str] = {
    "AGO": "The offset is the second interval of a function: `AVG(x, 5 MINUTES, 1 HOURS)`.",
    "ALERT": "Write the condition before EVERY: `WHEN > 90 EVERY 10 SECONDS`.",
    "AS": "The name of an insight stands at its beginning: `name = COMPUTE …`.",
    "ASC": _GREATEST,
    "BOOL": "Write conditions after WHEN, as in `x WHEN > 90`.",
    "BETWEEN": "Write two comparisons: `> 5 AND < 10`.",
    "CASE": _CASES,
    "CONTAINS": _TEXTS,
    "DESC": _GREATEST,
    "DISTINCT": f"There is no DISTINCT: {_KEYS}",
    "ELSE": _CASES,
    "END": _CASES,
    "ENDSWITH": _TEXTS,
    "FILL": _MISSING,
    "FOR": _WINDOW,
    "GROUP_LEFT": "Values with fewer keys meet all others by themselves: write `a / b`.",
    "HAS": _TEXTS,
    "HAS_ALL": _TEXTS,
    "HAS_ANY": _TEXTS,
    "ILIKE": _TEXTS,
    "INTERVAL": _WINDOW,
    "INTO": "The name of an insight stands at its beginning: `name = COMPUTE …`.",
    "IS": NULL_HINT,
    "JOIN": "Values of several metrics meet by key and tick: write `AVG(a) / AVG(b)`.",
    "LAST": _WINDOW,
    "LIKE": _TEXTS,
    "LIMIT": _GREATEST,
    "MATCHES": _TEXTS,
    "NULL": NULL_HINT,
    "OFFSET": "The offset is the second interval of a function: `AVG(x, 5 MINUTES, 1 HOURS)`.",
    "OPTION": "Write WITH before the first option.",
    "OPTIONS": "Write WITH before the first option.",
    "ORDER": _GREATEST,
    "OVER": "Write the window in the function: `AVG(x, 1 MINUTE) BY node`.",
    "PARTITION": "Write BY instead of PARTITION BY.",
    "PERCENT": "Write a share as a number: 0.2 is 20 percent.",
    "REGEX": _TEXTS,
    "REGEXP": _TEXTS,
    "RLIKE": _TEXTS,
    "SINCE": _WINDOW,
    "SLIDE": _BY_TIME,
    "STARTSWITH": _TEXTS,
    "SORT": _GREATEST,
    "THEN": _CASES,
    "TUMBLING": _BY_TIME,
    "UNION": "Write an insight for each side.",
    "UNLESS": "Write the condition after WHEN.",
    "WINDOW": _WINDOW,
    "WITHIN": _WINDOW,
    "WITHOUT": "Name the attributes that remain, as in `BY node`.",
    "XOR": "There is no XOR: write `(a AND NOT b) OR (b AND NOT a)`.",
}
"""Word that the grammar does not expect -> hint."""

BY_TIME = frozenset({"TIME", "BIN", "TIME_BUCKET", "DATE_TRUNC", "TUMBLE", "HOP", "WINDOW"})
"""Functions of time in a GROUP BY."""

TIME_COLUMNS = frozenset({"TIME", "_TIME", "TIMESTAMP", "TS"})
"""Columns with the time of a point."""

TIMES = frozenset(
    {"DAYOFWEEK", "DAY_OF_WEEK", "HOUR", "HOUROFDAY", "MINUTE", "MONTH", "TIMESTAMP", "YEAR"}
)
"""Functions that return a part of a time."""

TIMES_HINT = "There are no functions of times; one result a day is `EVERY 1 DAYS AT 12:00 GMT`."

CONDITIONAL = frozenset(
    {"IF", "IFF", "IIF", "CASE", "COUNTIF", "SUMIF", "AVGIF", "SUM_IF", "COUNT_IF"}
)
"""Functions with a condition as an argument."""

CONDITIONAL_HINT = "Write a condition on points after WHEN: `COUNT(metric WHEN > 5, 1 MINUTE)`."

_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(
        ("STDDEV", "STD", "STDEV", "STDDEV_POP", "STDDEV_SAMP"),
        "Write `SDEV`, the standard deviation of the population.",
    ),
    **dict.fromkeys(("VAR", "VAR_POP", "VAR_SAMP", "STDVAR"), "Write `VARIANCE`."),
    **dict.fromkeys(("AVERAGE", "MEAN_VALUE"), "Write `AVG`."),
    **dict.fromkeys(
        ("QUANTILE", "HISTOGRAM_QUANTILE", "PERCENTILE_CONT", "PERCENTILE_DISC", "PERCENTILES"),
        "Write the percentage in brackets: `PERCENTILE[95](x)`.",
    ),
    **dict.fromkeys(("TOPK", "TOP", "TAKE", "LIMIT"), "Write `TOP_K[5](x)`."),
    **dict.fromkeys(
        ("BOTTOMK", "BOTTOM"), "There are no least values but the least one: `MIN(x)`."
    ),
    **dict.fromkeys(("INCREASE", "IRATE", "NON_NEGATIVE_DERIVATIVE"), _COUNTER),
    **dict.fromkeys(("DELTA", "DERIV", "DERIVATIVE"), _CHANGE),
    **dict.fromkeys(
        ("LAST", "LAST_OVER_TIME", "LATEST", "LAST_VALUE", "CURRENT", "TAKE_ANY", "ARG_MAX"),
        "A metric without a function is its latest value: `x BY node`.",
    ),
    **dict.fromkeys(
        ("FIRST", "FIRST_OVER_TIME", "FIRST_VALUE", "EARLIEST"),
        "An offset gives an earlier window: `AVG(x, 1 MINUTE, 1 HOURS)`.",
    ),
    **dict.fromkeys(("SPREAD", "RANGE"), "Write `MAX(x) - MIN(x)`."),
    **dict.fromkeys(
        ("DISTINCT", "DCOUNT", "COUNT_DISTINCT", "UNIQUE", "COUNT_VALUES", "APPROX_COUNT_DISTINCT"),
        _KEYS,
    ),
    **dict.fromkeys(
        ("MOVING_AVERAGE", "MOVING_AVG", "MOVINGAVERAGE", "ROLLING_MEAN", "TIMEDMOVINGAVERAGE"),
        "`AVG(x, 5 MINUTES)` is a moving average.",
    ),
    **dict.fromkeys(
        ("EMA", "EXPONENTIAL_MOVING_AVERAGE", "EXPONENTIALMOVINGAVERAGE"), "Write `EWMA[0.3](x)`."
    ),
    **dict.fromkeys(
        ("HOLT_WINTERS", "HOLTWINTERS", "PREDICT_LINEAR", "SERIES_DECOMPOSE_FORECAST"),
        "Write `FORECAST[6](x, 1 HOUR)`.",
    ),
    **dict.fromkeys(("POW", "POWER"), "There is no power: `SQR(x)` is the square."),
    **dict.fromkeys(("ROUND", "FLOOR", "CEIL", "CEILING", "TRUNC"), _ROUNDING),
    **dict.fromkeys(("LN", "LOG_E"), "Write `LOG`, the natural logarithm."),
    "LOG10": "Write `LOG(x) / 2.302585093`.",
    "LOG2": "Write `LOG(x) / 0.693147181`.",
    **dict.fromkeys(("COALESCE", "IFNULL", "NVL", "FILL"), _MISSING),
    **dict.fromkeys(("ABSENT", "ABSENT_OVER_TIME"), _MISSING),
    **dict.fromkeys(
        ("EXISTS", "ISEMPTY", "ISNOTEMPTY", "ISNOTNULL", "ISNULL", "PRESENT_OVER_TIME"), NULL_HINT
    ),
    **dict.fromkeys(
        ("GREATEST", "LEAST"), "Functions take one metric: write an insight for each metric."
    ),
    **dict.fromkeys(("MOD", "REMAINDER"), "There is no remainder."),
    **dict.fromkeys(
        ("CLAMP", "CLAMP_MAX", "CLAMP_MIN"),
        "Values are not limited; a WHEN ignores points: `AVG(x WHEN >= 0 AND <= 100)`.",
    ),
    "MAP": "Write the calculation alone, as in `2 * AVG(x, 1 MINUTE)`.",
    "SAMPLE": "Sampling is an option of an insight: `EVERY 5 SECONDS WITH SAMPLE 0.2`.",
    "VECTOR": "Write a number alone, as in `AVG(x) + 1`.",
    **dict.fromkeys(TIMES, TIMES_HINT),
    **dict.fromkeys(
        ("AGO", "NOW", *BY_TIME),
        _BY_TIME,
    ),
    **dict.fromkeys(
        ("CUMULATIVE_SUM", "CUMULATIVESUM", "CUMSUM", "ROW_CUMSUM"),
        "Write `RUNNING_MEAN(x) * RUNNING_COUNT(x)`.",
    ),
    **dict.fromkeys(
        ("LAG", "LEAD", "DIFFERENCE", "PREV", "IDELTA", "NON_NEGATIVE_DIFFERENCE"), _EARLIER
    ),
    "INTEGRAL": "Write the mean times the seconds of the window: `60 * AVG(x, 1 MINUTE)`.",
    **dict.fromkeys(
        ("SUMMARIZE", "AGGREGATE", "EXTEND", "PROJECT"),
        "Write the expression alone, and BY after it: `AVG(x, 1 MINUTE) BY node`.",
    ),
    "CORR": "Write `CORRELATION(x, y, 10 MINUTES)`.",
    "INSIGHT": "Write `INSIGHT name` without parentheses.",
    "SORT": _GREATEST,
    "SORT_DESC": _GREATEST,
}

_PERCENTILE = re.compile(r"P(?:ERCENTILE_?)?(\d{1,2}(?:\d|_\d+)?)")
_OF_WINDOWS = {
    **{name: name for name in ("AVG", "COUNT", "MAX", "MIN", "SUM")},
    "QUANTILE": "PERCENTILE[95]",
    "STDDEV": "SDEV",
    "STDVAR": "VARIANCE",
}
_OVER_TIME = re.compile(r"([A-Z]+)_OVER_TIME")


def function_hint(name: str) -> str | None:
    """Return a hint for a function of another language; ``name``: in upper case.

    >>> function_hint("P95"), function_hint("MAX_OVER_TIME"), function_hint("FROBNICATE")
    ('Write `PERCENTILE[95](x)`.', 'Write `MAX(x, 5 MINUTES)`.', None)
    """
    if (percentile := _PERCENTILE.fullmatch(name)) is not None:
        return f"Write `PERCENTILE[{percentile[1].replace('_', '.')}](x)`."
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    over_time = _OVER_TIME.fullmatch(name)
    if over_time is None or over_time[1] not in _OF_WINDOWS:
        return None
    return f"Write `{_OF_WINDOWS[over_time[1]]}(x, 5 MINUTES)`."
