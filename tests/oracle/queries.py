"""Strategies of valid texts of the insight language: insights with keys, times and options."""

from hypothesis import strategies as st

from tests.oracle.expressions import (
    ATTRIBUTES,
    CALLS,
    DAILY_MS,
    DEFINITIONS,
    SAMPLES,
    SHIFT_MS,
    DrawnExpression,
    Exactness,
    QueryContext,
    alike,
    attribute,
    geohash_calls,
    joined,
    of_attributes,
    of_results,
    of_values_alone,
    pieces,
)

_daily = st.sampled_from([
    " EVERY 1 DAYS AT 00:01 GMT", ' EVERY 1 DAYS AT 01:01 "Europe/Berlin"',
    " EVERY 3 DAYS AT 00:01 GMT", ' EVERY 2 DAYS AT 01:01 "Europe/Berlin"',
])  # fmt: skip
_counted = st.sampled_from(["", "", " EVERY 1 POINTS", " EVERY 3 POINTS", " EVERY 20 POINTS"])
_rhythms = st.sampled_from([1000, 1000, 2000, 3000, 500, 7000, DAILY_MS, None])
_ALLOWS = (
    "x > 0", 'zone != "b"', "(x < 5 AND y > -2)", "x < 5 AND y > -2", "(x > 1 OR zone == region)",
    "COUNT(x, 5 s) > 1", '(site == "s1" AND > 0)', "rack <= COUNT(x, 5 s)",
    "MAX(x, 3 s) >= rack", "zone NOT IN letters(region)", "(rack == zone OR COUNT(x, 2 s) > 3)",
    "(spare == true OR COUNT(x, 5 s) < 2)", '(rack != "2" OR MIN(x, 3 s) > 2)',
    '(rack IN (2, "r", "2") OR MAX(x, 5 s) > 5)', '(zone IN letters("ar") OR MIN(x, 2 s) < 1)',
    "(zone != rack OR COUNT(x, 5 s) > 6)",
)  # fmt: skip


_OUTLIER_OPTIONS = (
    "ALGORITHM pmcod AND K=2 AND R=1.5",
    "K=2 AND ALGORITHM pmcod AND R=1.5",
    "R=1.5 AND K=2 AND ALGORITHM pmcod",
)
_kinds = st.sampled_from([*["value"] * 14, "geohash", "attribute"])


@st.composite
def _insights(draw: st.DrawFn, *, grouped: bool, at_points: bool) -> str:
    """Draw the statement of an insight, without the insight's name."""
    by = draw(st.lists(attribute, max_size=2, unique=True))
    further = draw(st.sampled_from([name for name in ATTRIBUTES if name not in by]))
    every_ms = None if at_points else draw(_rhythms)
    sampled = every_ms and draw(st.integers(0, 9)) == 0
    sample = draw(st.sampled_from(SAMPLES)) if sampled else None
    counted = "" if every_ms else draw(_counted)
    frame = QueryContext(tuple(by), further, every_ms, sample, bool(counted))
    kind = draw(_kinds)
    if sample and kind == "attribute":
        kind = "value"
    match kind:
        case "geohash":
            piece = draw(geohash_calls(frame))
        case "attribute":
            named = draw(st.one_of(attribute, attribute, st.sampled_from(["north", "some"])))
            piece = DrawnExpression(named, Exactness.ROUNDED)
        case _:
            piece = draw(pieces(frame, draw(st.integers(0, 3))))
    text = f"COMPUTE {piece.text}"
    text += f" BY {', '.join(by)}" if by else ""
    if kind == "attribute":
        text += f" WHEN {draw(of_values_alone(frame))}"
    elif draw(st.integers(0, 2)) == 0:
        keys = (*by, *([further] if piece.wide else []))
        # A text has no order, which most that is drawn of results has.
        of_texts = joined(of_attributes(attribute) | alike)
        text += f" WHEN {draw(of_texts if kind == 'geohash' else of_results(piece, keys, frame))}"
    match frame.every_ms:
        case None:
            text += counted
        case _ if frame.every_ms == DAILY_MS:
            text += draw(_daily)
        case every:
            text += f" EVERY {every} MS"
    outliers = draw(st.sampled_from(_OUTLIER_OPTIONS)) if "OUTLIER" in text else None
    options = [outliers] if outliers else []
    options += [frame.sample.option] if frame.sample else []
    options += ["SALIENCE 5"] if grouped and draw(st.integers(0, 7)) == 0 else []
    if draw(st.integers(0, 5)) == 0:
        allowed = draw(st.sampled_from(_ALLOWS))
        # A metric that is not read is an attribute here; what is rounded may be just 0.
        read = all(f"({one}" in text or f" {one}" in text for one in "xy" if one in allowed)
        if read and (piece.exact is not Exactness.ROUNDED or "AND > 0" not in allowed):
            options.append(f"ALLOW WHEN {allowed}")
    return text + (f" WITH {' AND '.join(options)}" if options else "")


_REFERRING = (
    "INSIGHT q", "2 * INSIGHT q + 1", "SQR(INSIGHT q)", "SUM(x) + INSIGHT q", "MAX(INSIGHT q)",
    "(INSIGHT q WHEN > 1.3717) - COUNT(y, 5 s)", "COUNT(INSIGHT q)",
)  # fmt: skip
_REFERRING_AT_POINTS = (
    "INSIGHT q",
    "2 * INSIGHT q + 1",
    "SQR(INSIGHT q)",
    "(INSIGHT q WHEN > 1.3717) - COUNT(y, 5 s)",
)
_REFERRING_ON = ("INSIGHT r", "INSIGHT r - MAX(INSIGHT q)", "ABS(INSIGHT q) + INSIGHT r")


def _defined(insight: str) -> str:
    """Return the definitions that an insight uses; unused definitions would slow down parsing."""
    used = {name for name in DEFINITIONS if name in insight.casefold()}
    used |= {CALLS[name] for name in used & CALLS.keys()}
    return "".join(f"{text};\n" for name, text in DEFINITIONS.items() if name in used)


@st.composite
def texts(draw: st.DrawFn, *, grouped: bool, at_points: bool = False) -> str:
    """Draw a text with an insight ``q``, and sometimes with insights that refer to it.

    If ``grouped``, some insights have options that separate them from other insights. If
    ``at_points``, ``q`` has values at points.
    """
    insight = draw(_insights(grouped=grouped, at_points=at_points))
    text = f"{_defined(insight)}q = {insight}"
    if draw(st.integers(0, 5)) or "ALLOW" in insight:
        return text
    every = insight.partition(" EVERY ")[2].split()
    if every[1:2] == ["MS"]:
        step = int(int(every[0]) * draw(st.sampled_from([1, 1, 2, 2, 0.5])))
        text += f";\nr = COMPUTE {draw(st.sampled_from(_REFERRING))} EVERY {step} MS"
        if draw(st.booleans()):
            text += f";\ns = COMPUTE {draw(st.sampled_from(_REFERRING_ON))} EVERY {2 * step} MS"
    elif not every:
        # All offsets are multiples of this.
        moments = draw(st.sampled_from(["", " EVERY 3 POINTS", f" EVERY {SHIFT_MS} MS"]))
        referring = _REFERRING if "MS" in moments else _REFERRING_AT_POINTS
        text += f";\nr = COMPUTE {draw(st.sampled_from(referring))}{moments}"
    return text
