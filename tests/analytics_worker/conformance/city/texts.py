"""Texts in the style of the published model, written before the implementation was read, with their expectations.

Each case: class of issue 17 point 1, the name of the insight whose results are compared, the text, the sentence of
the reference that decides, and a plain computation {(key, time): value or text}. Nothing here imports Mistbow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from city import *  # noqa: F403

S = SECOND


@dataclass(frozen=True)
class Case:
    group: int
    name: str
    text: str
    sentence: str
    expected: Callable[[], Table] | None = None


CASES: list[Case] = []


def case(group: int, sentence: str, text: str, expected: Callable[[], Table] | None) -> None:
    """Add a text; the compared insight is the last one in it."""
    name = text.rsplit("= COMPUTE", 1)[0].split()[-1]
    CASES.append(Case(group, name, text, sentence, expected))


def eq(name: str, *values: object) -> Keep:
    return lambda p: p.get(name) in values


DELAY = of("delay")
LAST_MINUTE = MINUTE

# 1. EVERY n POINTS together with aggregates without a window ------------------------------------------------------

SPAN = "Without a window, an aggregate covers the points of its key since the previous value."
case(1, SPAN, "delay_of_five = COMPUTE ARITHMETIC_MEAN(delay) BY stop EVERY 5 POINTS",
     lambda: spans(DELAY, mean, 5, ("stop",)))
case(1, SPAN, "bus_swing = COMPUTE MAX(delay) - MIN(delay) BY entityID EVERY 4 POINTS",
     lambda: spans(DELAY, lambda v: max(v) - min(v), 4, ("entityID",)))
case(1, "The count includes the points of all metrics of the insight that match FROM and WHEN.",
     "lateness_sum = COMPUTE SUM(delay WHEN > 0) BY line EVERY 3 POINTS",
     lambda: spans(of("delay", lambda p: p.value > 0), sum, 3, ("line",)))
case(1, SPAN, "cpu_variation = COMPUTE 100 * SDEV(cpu_util) / ARITHMETIC_MEAN(cpu_util) EVERY 10 POINTS",
     lambda: spans(of("cpu_util"), lambda v: 100 * sdev(v) / mean(v), 10))
case(1, SPAN, "bus_pace = COMPUTE MEDIAN(speed) BY entityID EVERY 6 POINTS",
     lambda: spans(of("speed"), median, 6, ("entityID",)))
case(1, "`disease WHEN == malaria` selects the points of `disease` whose label `disease` is `malaria`.",
     "malaria_pairs = COMPUTE COUNT(disease WHEN == malaria) BY region EVERY 2 POINTS",
     lambda: spans(of("disease", eq("disease", "malaria")), len, 2, ("region",)))
case(1, "FROM restricts an aggregate to the points of some entities.",
     "crowd_of_line_one = COMPUTE PERCENTILE[90](passengers FROM (bus_1, bus_2)) EVERY 7 POINTS",
     lambda: spans(of("passengers", eq("entity", "bus_1", "bus_2")), percentile(90), 7))
case(1, "Only results that satisfy the condition are written.",
     "late_stop = COMPUTE ARITHMETIC_MEAN(delay) BY stop WHEN > 3 EVERY 5 POINTS",
     lambda: where(spans(DELAY, mean, 5, ("stop",)), lambda k, t, v: v > 3))
case(1, "points: conditions on attributes that are not in BY",
     'fastest_of_line = COMPUTE MAX(speed) BY entityID WHEN line == "L1" EVERY 3 POINTS',
     lambda: spans(of("speed", eq("line", "L1")), max, 3, ("entityID",)))
case(1, "If several points of a key have the same time, and one of them is the n-th point, the key has one value at this time.",
     "boarded = COMPUTE SUM(passengers) BY line EVERY 5 POINTS",
     lambda: spans(of("passengers"), sum, 5, ("line",)))
case(1, "TOP_K[k]: the k greatest values, in descending order",
     "two_hottest = COMPUTE TOP_K[2](temperature) BY region EVERY 8 POINTS",
     lambda: spans(of("temperature"), lambda v: sorted(v, reverse=True)[:2], 8, ("region",)))

# 2. GEOHASH of one position ------------------------------------------------------------------------------------------

LATEST = "the argument is a position, which is read at the latest point of each key"
case(2, LATEST, "bus_cell = COMPUTE GEOHASH[6](gps) BY entityID EVERY 10 SECONDS",
     lambda: cells(of("gps"), lambda p: cell(p.get("gps"), 6), 10 * S, ("entityID",)))
case(2, "or the array [35.1, 33.4]", "fix_cell = COMPUTE GEOHASH[5](fix) BY entityID EVERY 10 SECONDS",
     lambda: cells(of("fix"), lambda p: cell(p.get("fix"), 5), 10 * S, ("entityID",)))
POSITION = 'bus_position: STREAM FROM position(metric="speed", latitude="lat", longitude="lon");\n'


def pair(length: int) -> Callable[[Point], str]:
    return lambda p: geohash(p.get("lat"), p.get("lon"), length)  # type: ignore[arg-type]


case(2, "Without EVERY, an insight has a value at the time of each new point.",
     POSITION + "each_cell = COMPUTE GEOHASH[7](bus_position) BY entityID",
     lambda: {((p.entity,), p.ts): pair(7)(p) for p in of("speed")})
case(2, "FROM and WHEN after the position select points, as for a metric",
     POSITION + "moving_cell = COMPUTE GEOHASH[7](bus_position WHEN > 20) BY entityID EVERY 10 SECONDS",
     lambda: cells(of("speed", lambda p: p.value > 20), pair(7), 10 * S, ("entityID",)))
case(2, "FROM and WHEN after the position select points, as for a metric",
     "cell_of_two = COMPUTE GEOHASH[6](gps FROM (bus_1, bus_6)) BY entityID EVERY 15 SECONDS",
     lambda: cells(of("gps", eq("entity", "bus_1", "bus_6")), lambda p: cell(p.get("gps"), 6), 15 * S, ("entityID",)))
case(2, LATEST, "line_one_cell = COMPUTE GEOHASH[6](gps WHEN line == L1) BY entityID EVERY 10 SECONDS",
     lambda: cells(of("gps", eq("line", "L1")), lambda p: cell(p.get("gps"), 6), 10 * S, ("entityID",)))
case(2, "A text can only be compared by ==, != and IN.",
     'speed_in_cell = COMPUTE ARITHMETIC_MEAN(speed, 1 MINUTES) BY entityID WHEN GEOHASH[5](gps) == "swr8q" EVERY 10 SECONDS',
     lambda: at_cell(over(of("speed"), mean, MINUTE, 10 * S, ("entityID",)), ("swr8q",)))
case(2, "A text can only be compared by ==, != and IN; bare names in a list are texts.",
     "crowd_in_cells = COMPUTE MAX(passengers, 30 SECONDS) BY entityID WHEN GEOHASH[5](gps) IN (swr8n, swr8m) EVERY 10 SECONDS",
     lambda: at_cell(over(of("passengers"), max, 30 * S, 10 * S, ("entityID",)), ("swr8n", "swr8m")))
case(2, LATEST, POSITION + "city_cell = COMPUTE GEOHASH[8](bus_position) EVERY 5 SECONDS",
     lambda: cells(of("speed"), pair(8), 5 * S))
case(2, "BY: one value for each combination of values",
     POSITION + "line_cell = COMPUTE GEOHASH[6](bus_position FROM (bus_1, bus_2, bus_3) WHEN stop != stop_1 AND > 5) BY line EVERY 10 SECONDS",
     lambda: cells(of("speed", lambda p: p.entity in ("bus_1", "bus_2", "bus_3") and p.get("stop") != "stop_1" and p.value > 5),
                   pair(6), 10 * S, ("line",)))


def at_cell(table: Table, wanted: tuple[str, ...]) -> Table:
    now = cells(of("gps"), lambda p: cell(p.get("gps"), 5), 10 * S, ("entityID",))
    return where(table, lambda k, t, v: now.get((k, t)) in wanted)


# 3. FUNCTIONs, sets on the right of IN, operators of users --------------------------------------------------------------
# ipToCountry(ip) and legalCountries(movie) are operators over attributes: city.ip_to_country, city.legal_countries.

REPLACED = "Each call is replaced by the expression with its arguments."
LISTS = "The left side of IN and the list after it may be calls of an operator over attributes"
LEGALLY = lambda p: p.get("country") in legal_countries(p.get("movie"))  # noqa: E731
case(3, LISTS, "legal = COMPUTE COUNT(request WHEN ipToCountry(ip) IN legalCountries(movie), 1 MINUTES) EVERY 10 SECONDS",
     lambda: over(of("request", LEGALLY), len, MINUTE, 10 * S))
case(3, LISTS, "illegal_share = COMPUTE COUNT(request WHEN ipToCountry(ip) NOT IN legalCountries(movie), 1 MINUTES) / COUNT(request, 1 MINUTES) EVERY 10 SECONDS",
     lambda: both(over(of("request", lambda p: not LEGALLY(p)), len, MINUTE, 10 * S),
                  over(of("request"), len, MINUTE, 10 * S), ratio))
case(3, "The body of a FUNCTION may be such a list too",
     'FUNCTION island_countries(movie) { ("CY", "GR") };\nisland = COMPUTE COUNT(request WHEN country IN island_countries(movie), 1 MINUTES) BY movie EVERY 10 SECONDS',
     lambda: over(of("request", eq("country", "CY", "GR")), len, MINUTE, 10 * S, ("movie",)))
case(3, "In a list after IN, a bare name is always a text; the body of a FUNCTION may be such a list too.",
     "FUNCTION central_stops() { (stop_1, stop_3) };\ncentral_delay = COMPUTE ARITHMETIC_MEAN(delay WHEN stop IN central_stops(), 1 MINUTES) EVERY 10 SECONDS",
     lambda: over(of("delay", eq("stop", "stop_1", "stop_3")), mean, MINUTE, 10 * S))
case(3, "argument of an aggregate: a metric; in a condition: a number",
     "FUNCTION late_share(metric, limit) { COUNT(metric WHEN > limit, 1 MINUTES) / COUNT(metric, 1 MINUTES) };\nline_late_share = COMPUTE late_share(delay, 2) BY line EVERY 10 SECONDS",
     lambda: both(over(of("delay", lambda p: p.value > 2), len, MINUTE, 10 * S, ("line",)),
                  over(DELAY, len, MINUTE, 10 * S, ("line",)), ratio))
case(3, "elsewhere: a value", "FUNCTION to_fahrenheit(c) { c * 9 / 5 + 32 };\nward_heat = COMPUTE to_fahrenheit(ARITHMETIC_MEAN(temperature, 1 MINUTES)) BY city EVERY 10 SECONDS",
     lambda: {at: v * 9 / 5 + 32 for at, v in over(of("temperature"), mean, MINUTE, 10 * S, ("city",)).items()})
case(3, "A condition at the end: points", "cypriot = COMPUTE COUNT(request, 1 MINUTES) BY movie WHEN ipToCountry(ip) IN (CY, GR) EVERY 10 SECONDS",
     lambda: over(of("request", eq("country", "CY", "GR")), len, MINUTE, 10 * S, ("movie",)))
case(3, "in FROM or BY: a name", "FUNCTION spread(metric, place) { MAX(metric, 30 SECONDS) - MIN(metric, 30 SECONDS) BY place };\nheat_spread = COMPUTE spread(temperature, region) EVERY 10 SECONDS",
     lambda: over(of("temperature"), lambda v: max(v) - min(v), 30 * S, 10 * S, ("region",)))
case(3, LISTS, "german = COMPUTE COUNT(request WHEN ipToCountry(ip) IN (DE) AND movie != zorba, 1 MINUTES) BY region EVERY 10 SECONDS",
     lambda: over(of("request", lambda p: p.get("country") == "DE" and p.get("movie") != "zorba"), len, MINUTE, 10 * S, ("region",)))
case(3, LISTS, "local = COMPUTE COUNT(request WHEN country IN legalCountries(movie) OR movie == tootsie, 30 SECONDS) BY node EVERY 10 SECONDS",
     lambda: over(of("request", lambda p: LEGALLY(p) or p.get("movie") == "tootsie"), len, 30 * S, 10 * S, ("node",)))

# 4. COMPUTE attribute, COMPUTE stream -----------------------------------------------------------------------------------

AT_LATEST = "the value of this attribute at the latest point of the first metric in WHEN"


def attribute(points: list[Point], name: str, every: int, keep: Callable[[Key, int, float], bool], by: tuple[str, ...] = ()) -> Table:
    return {(k, t): p.get(name) for (k, t), p in latest(points, every, by).items() if keep(k, t, p.value)}


case(4, AT_LATEST, "late_driver = COMPUTE driver WHEN delay > 4 EVERY 10 SECONDS",
     lambda: attribute(DELAY, "driver", 10 * S, lambda k, t, v: v > 4))
case(4, AT_LATEST, "late_line = COMPUTE line BY stop WHEN delay > 4 EVERY 10 SECONDS",
     lambda: attribute(DELAY, "line", 10 * S, lambda k, t, v: v > 4, ("stop",)))


def outlying_stops() -> Table:
    out: Table = {}
    for i, p in enumerate(DELAY):
        so_far = [q.value for q in DELAY[: i + 1]]
        if p.value > mean(so_far) + sdev(so_far):
            out[(), p.ts] = p.get("stop")
    return out


case(4, "Without EVERY, a key has a value at each point.",
     "late_place = COMPUTE stop WHEN delay > RUNNING_MEAN(delay) + RUNNING_SDEV(delay)", outlying_stops)
case(4, "the condition of ALLOW may name a metric: then the points of that metric determine the attribute",
     "cheap_centre = COMPUTE dc_id EVERY 10 SECONDS WITH ALLOW WHEN cost < 8",
     lambda: attribute(of("cost", lambda p: p.value < 8), "dc_id", 10 * S, lambda k, t, v: True))
MEAN_DELAY = "mean_delay = COMPUTE ARITHMETIC_MEAN(delay, 1 MINUTES) BY line EVERY 10 SECONDS;\n"


def mean_delay() -> Table:
    return over(DELAY, mean, MINUTE, 10 * S, ("line",))


def driver_when_line_late() -> Table:
    table = mean_delay()
    return attribute(DELAY, "driver", 10 * S, lambda k, t, v: table.get((k, t), -1) > 2, ("line",))


case(4, "With an INSIGHT, there is a text for each key of this insight.",
     MEAN_DELAY + "driver_of_late_line = COMPUTE driver WHEN INSIGHT mean_delay > 2 EVERY 10 SECONDS", driver_when_line_late)
LINE_ONE = 'line_one: STREAM FROM storage(line="L1");\n'
CURRENT_OF = "The result is then the current value of the metric in WHEN over the points of the stream."
case(4, CURRENT_OF, LINE_ONE + "line_one_late = COMPUTE line_one WHEN delay > 3 EVERY 10 SECONDS",
     lambda: where(current(of("delay", eq("line", "L1")), 10 * S), lambda k, t, v: v > 3))
case(4, CURRENT_OF, LINE_ONE + "line_one_stops = COMPUTE line_one BY stop WHEN delay > 1 EVERY 10 SECONDS",
     lambda: where(current(of("delay", eq("line", "L1")), 10 * S, ("stop",)), lambda k, t, v: v > 1))
case(4, "busiest_now: COMPUTE node BY region WHEN cpu > 90 AND MAX(cpu, 1 MINUTE) > 95",
     "stop_of_late_line = COMPUTE stop BY line WHEN delay > 2 AND MAX(delay, 1 MINUTES) > 6 EVERY 10 SECONDS",
     lambda: (lambda peak: attribute(DELAY, "stop", 10 * S, lambda k, t, v: v > 2 and peak.get((k, t), 0) > 6, ("line",)))(
         over(DELAY, max, MINUTE, 10 * S, ("line",))))
case(4, "the condition of ALLOW may name a metric (and is divided at each AND, with parentheses)",
     "cheap_eastern_centre = COMPUTE dc_id BY region EVERY 10 SECONDS WITH ALLOW WHEN (region != north AND cost <= 5) AND SALIENCE 1",
     lambda: attribute(of("cost", lambda p: p.get("region") != "north" and p.value <= 5), "dc_id", 10 * S, lambda k, t, v: True, ("region",)))
case(4, "issue 17: COMPUTE stream wherever the condition says for what (ALLOW WHEN …). The metric of the condition is read over the stream.",
     'eastern: STREAM FROM storage(region="east");\neastern_cost = COMPUTE eastern BY node EVERY 10 SECONDS WITH ALLOW WHEN cost < 9',
     lambda: current(of("cost", lambda p: p.get("region") == "east" and p.value < 9), 10 * S, ("node",)))
case(4, "issue 17: COMPUTE stream wherever the condition says for what (WHEN INSIGHT …). Unclear in the reference: no expectation.",
     MEAN_DELAY + LINE_ONE + "line_one_when_late = COMPUTE line_one WHEN INSIGHT mean_delay > 2 EVERY 10 SECONDS", None)
case(4, AT_LATEST, "hot_ward = COMPUTE ward BY city WHEN temperature > RUNNING_MEAN(temperature)",
     lambda: hot_wards())


def hot_wards() -> Table:
    out: Table = {}
    for key, group in keyed(of("temperature"), ("city",)).items():
        for i, p in enumerate(group):
            if p.value > mean([q.value for q in group[: i + 1]]):
                out[key, p.ts] = p.get("ward")
    return out


# 5. ALLOW WHEN --------------------------------------------------------------------------------------------------------

POINTS_AND_RESULTS = "Each part applies either to points or to results: all aggregates exclude other points; other results are not written."


def count_of(points: list[Point], window: int, every: int, by: tuple[str, ...]) -> Table:
    return over(points, len, window, every, by)


def allowed_counts() -> Table:
    mild = of("delay", lambda p: p.value < 6)
    counts = count_of(mild, 10 * S, 10 * S, ("line",))
    return where(over(mild, mean, 10 * S, 10 * S, ("line",)), lambda k, t, v: counts[k, t] >= 3)  # type: ignore[operator]


case(5, POINTS_AND_RESULTS, "shy_delay = COMPUTE ARITHMETIC_MEAN(delay) BY line EVERY 10 SECONDS WITH ALLOW WHEN COUNT(delay) >= 3 AND delay < 6", allowed_counts)
case(5, POINTS_AND_RESULTS, "shy_again = COMPUTE ARITHMETIC_MEAN(delay) BY line EVERY 10 SECONDS WITH SALIENCE 2 AND ALLOW WHEN (COUNT(delay) >= 3 AND delay < 6)", allowed_counts)
case(5, POINTS_AND_RESULTS, "late_elsewhere = COMPUTE MAX(delay, 30 SECONDS) BY stop EVERY 10 SECONDS WITH ALLOW WHEN (delay > 0 AND stop != stop_2) AND SIGNATURE 'night_board'",
     lambda: over(of("delay", lambda p: p.value > 0 and p.get("stop") != "stop_2"), max, 30 * S, 10 * S, ("stop",)))


def cheapest(quantity: Callable[[Point], float]) -> Table:
    now = latest(of("cost"), 10 * S, ("node",))
    least = over(of("cost"), min, 10 * S, 10 * S, ("node",))
    return where(over(of("cost"), mean, 10 * S, 10 * S, ("node",)), lambda k, t, v: quantity(now[k, t]) == least[k, t])


case(5, "A name in such a part that is not in BY is a metric, and means the current value, as in `dc_cost == MIN(cost)`.",
     "cost_at_least = COMPUTE ARITHMETIC_MEAN(cost) BY node EVERY 10 SECONDS WITH ALLOW WHEN cost == MIN(cost) AND SCHEDULER=latency",
     lambda: cheapest(lambda p: p.value))
case(5, "If only an attribute has this name, and no metric, the name means the attribute at the latest point of the first metric of the insight",
     "cost_as_listed = COMPUTE ARITHMETIC_MEAN(cost) BY node EVERY 10 SECONDS WITH ALLOW WHEN dc_cost == MIN(cost)",
     lambda: cheapest(lambda p: p.get("dc_cost")))  # type: ignore[arg-type,return-value]


def below_limit() -> Table:
    now = latest(of("temperature"), 20 * S, ("city",))
    heat = over(of("temperature"), max, 20 * S, 20 * S, ("city",))
    level = over(of("temperature"), mean, 20 * S, 20 * S, ("city",))
    return where(heat, lambda k, t, v: now[k, t].get("limit") > level[k, t])  # type: ignore[operator]


case(5, "the name means the attribute at the latest point of the first metric of the insight",
     "bearable = COMPUTE MAX(temperature) BY city EVERY 20 SECONDS WITH ALLOW WHEN limit > ARITHMETIC_MEAN(temperature)", below_limit)
case(5, "results: conditions on the value (the left side is omitted) and on aggregates",
     "middling = COMPUTE ARITHMETIC_MEAN(delay) BY stop EVERY 10 SECONDS WITH ALLOW WHEN > 1 AND < 5",
     lambda: where(over(DELAY, mean, 10 * S, 10 * S, ("stop",)), lambda k, t, v: 1 < v < 5))
case(5, "results: conditions on aggregates",
     "steady = COMPUTE ARITHMETIC_MEAN(delay, 30 SECONDS) BY line EVERY 10 SECONDS WITH ALLOW WHEN MAX(delay) - MIN(delay) < 7 AND SALIENCE 1",
     lambda: (lambda gap: where(over(DELAY, mean, 30 * S, 10 * S, ("line",)), lambda k, t, v: gap.get((k, t), 9) < 7))(
         over(DELAY, lambda v: max(v) - min(v), 10 * S, 10 * S, ("line",))))
case(5, "conditions on aggregates, combined by OR in parentheses",
     "many_or_late = COMPUTE SUM(passengers) BY stop EVERY 10 SECONDS WITH ALLOW WHEN (COUNT(passengers) >= 4 OR MAX(passengers) > 9)",
     lambda: (lambda n, peak: where(over(of("passengers"), sum, 10 * S, 10 * S, ("stop",)), lambda k, t, v: n[k, t] >= 4 or peak[k, t] > 9))(
         over(of("passengers"), len, 10 * S, 10 * S, ("stop",)), over(of("passengers"), max, 10 * S, 10 * S, ("stop",))))
case(5, "aggregates on both sides",
     "skewed = COMPUTE COUNT(delay, 1 MINUTES) BY line EVERY 10 SECONDS WITH ALLOW WHEN ARITHMETIC_MEAN(delay, 1 MINUTES) > MEDIAN(delay, 1 MINUTES)",
     lambda: (lambda m, d: where(over(DELAY, len, MINUTE, 10 * S, ("line",)), lambda k, t, v: m[k, t] > d[k, t]))(
         over(DELAY, mean, MINUTE, 10 * S, ("line",)), over(DELAY, median, MINUTE, 10 * S, ("line",))))
case(5, "conditions on attributes, including attributes in BY, and on values of a metric",
     "two_nodes_cpu = COMPUTE ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node EVERY 10 SECONDS WITH ALLOW WHEN node IN (node_1, node_2) AND cpu_util <= 90 AND SIGNATURE 'ops_team' AND SALIENCE 3",
     lambda: over(of("cpu_util", lambda p: p.get("node") in ("node_1", "node_2") and p.value <= 90), mean, 30 * S, 10 * S, ("node",)))
case(5, "Options are joined by AND, in any order. COUNT is exact: all points are counted.",
     "counted = COMPUTE COUNT(passengers, 1 MINUTES) BY line EVERY 10 SECONDS WITH CONFIDENCE 0.9 AND ALLOW WHEN line != L3 AND MAX_ERROR 0.1",
     lambda: over(of("passengers", lambda p: p.get("line") != "L3"), len, MINUTE, 10 * S, ("line",)))

# 6. INSIGHT x at a finer EVERY ------------------------------------------------------------------------------------------

LAST_TICK = "If the interval of A is shorter, the reference has the value of the last tick of B."
USUAL = "usual_delay = COMPUTE ARITHMETIC_MEAN(delay, 1 MINUTES) BY line EVERY 30 SECONDS;\n"


def usual(every: int) -> Table:
    return last_of(over(DELAY, mean, MINUTE, 30 * S, ("line",)), 30 * S, every)


case(6, LAST_TICK, USUAL + "held = COMPUTE INSIGHT usual_delay EVERY 5 SECONDS", lambda: usual(5 * S))
case(6, LAST_TICK, USUAL + "rise = COMPUTE ARITHMETIC_MEAN(delay) BY line - INSIGHT usual_delay EVERY 10 SECONDS",
     lambda: both(over(DELAY, mean, 10 * S, 10 * S, ("line",)), usual(10 * S), lambda x, y: x - y))
case(6, LAST_TICK, USUAL + "peak_above = COMPUTE MAX(delay) BY line WHEN > 2 * INSIGHT usual_delay EVERY 10 SECONDS",
     lambda: (lambda u: where(over(DELAY, max, 10 * S, 10 * S, ("line",)), lambda k, t, v: (k, t) in u and v > 2 * u[k, t]))(usual(10 * S)))
case(6, "If B had no value at this tick, the reference has no value; it has a value only if the WHEN of B is true.",
     "crowded = COMPUTE SUM(passengers, 15 SECONDS) BY stop WHEN > 22 EVERY 30 SECONDS;\ncrowded_now = COMPUTE INSIGHT crowded + 0 EVERY 10 SECONDS",
     lambda: last_of(where(over(of("passengers"), sum, 15 * S, 30 * S, ("stop",)), lambda k, t, v: v > 22), 30 * S, 10 * S))
case(6, LAST_TICK + " (20 seconds do not divide 30 seconds)", USUAL + "uneven = COMPUTE 10 * INSIGHT usual_delay EVERY 20 SECONDS",
     lambda: {at: 10 * v for at, v in usual(20 * S).items()})  # type: ignore[operator]
case(6, "An operand without keys has one value, which is joined with all keys of the other operand.",
     "all_reports = COMPUTE COUNT(delay) EVERY 30 SECONDS;\nreport_share = COMPUTE COUNT(delay) BY line / INSIGHT all_reports EVERY 5 SECONDS",
     lambda: both(over(DELAY, len, 5 * S, 5 * S, ("line",)), last_of(over(DELAY, len, 30 * S, 30 * S), 30 * S, 5 * S), ratio))
case(6, "each at its own last tick", USUAL + "slow_delay = COMPUTE MAX(delay, 1 MINUTES) BY line EVERY 1 MINUTES;\nof_slow = COMPUTE INSIGHT usual_delay / INSIGHT slow_delay EVERY 10 SECONDS",
     lambda: both(usual(10 * S), last_of(over(DELAY, max, MINUTE, MINUTE, ("line",)), MINUTE, 10 * S), ratio))
case(6, "A function can reduce the values of several keys: at each tick.", USUAL + "worst_usual = COMPUTE MAX(INSIGHT usual_delay) EVERY 10 SECONDS",
     lambda: reduced(usual(10 * S), max))
case(6, LAST_TICK + " (the minute of the city, compared with a text of the key)",
     USUAL + "line_two_usual = COMPUTE INSIGHT usual_delay WHEN line == L2 EVERY 1 SECONDS",
     lambda: where(usual(1 * S), lambda k, t, v: k == ("L2",)))

# 7. Statistics over values of ticks ---------------------------------------------------------------------------------------

OF_TICKS = "the function reads the values at several ticks: the ticks in (t − W, t]"
case(7, "If all steps are equal, the forecast is their value. Without a window: the last 60 ticks; at least 4 steps.",
     "level_soon = COMPUTE FORECAST[3](ARITHMETIC_MEAN(level)) EVERY 5 SECONDS",
     lambda: {((), t): 7.5 for t in ticks(5 * S) if t >= T0 + 20 * S})
case(7, "Holt-Winters of a straight line continues it.",
     "ramp_soon = COMPUTE FORECAST[2](MAX(ramp), 1 MINUTES) BY line EVERY 5 SECONDS",
     lambda: {(("L1",), t): 10.0 + 2 * ((t - T0) // (5 * S) - 1 + 2) for t in ticks(5 * S) if t >= T0 + 20 * S})
case(7, "next_delays of the reference: the oracle decides, not this file.",
     "next_delays = COMPUTE FORECAST[3](ARITHMETIC_MEAN(delay WHEN > 0, 1 MINUTES)) BY stop EVERY 10 SECONDS", None)
case(7, OF_TICKS, "usual_mean = COMPUTE MEDIAN(ARITHMETIC_MEAN(delay, 30 SECONDS), 2 MINUTES) BY line EVERY 10 SECONDS",
     lambda: of_ticks(over(DELAY, mean, 30 * S, 10 * S, ("line",)), median, 2 * MINUTE, 10 * S))
case(7, "If the argument has more attributes in its BY, the function reads the values of all these keys.",
     "high_requests = COMPUTE PERCENTILE[95](COUNT(request) BY movie, 1 MINUTES) EVERY 10 SECONDS",
     lambda: of_ticks(over(of("request"), len, 10 * S, 10 * S, ("movie",)), percentile(95), MINUTE, 10 * S, 0))
case(7, OF_TICKS, "load_and_cpu = COMPUTE CORRELATION(COUNT(request), ARITHMETIC_MEAN(cpu_util), 2 MINUTES) BY region EVERY 10 SECONDS",
     lambda: correlated(over(of("request"), len, 10 * S, 10 * S, ("region",)), over(of("cpu_util"), mean, 10 * S, 10 * S, ("region",)), 2 * MINUTE, 10 * S))
case(7, "without a window, they read the last 60 ticks", "delay_and_crowd = COMPUTE CORRELATION(ARITHMETIC_MEAN(delay), SUM(passengers)) BY line EVERY 5 SECONDS",
     lambda: correlated(over(DELAY, mean, 5 * S, 5 * S, ("line",)), over(of("passengers"), sum, 5 * S, 5 * S, ("line",)), 300 * S, 5 * S))
case(7, OF_TICKS, "crowd_unrest = COMPUTE SDEV(SUM(passengers), 1 MINUTES) BY line EVERY 10 SECONDS",
     lambda: of_ticks(over(of("passengers"), sum, 10 * S, 10 * S, ("line",)), sdev, MINUTE, 10 * S))
case(7, "An INSIGHT can be an argument too.", MEAN_DELAY + "median_of_means = COMPUTE MEDIAN(INSIGHT mean_delay, 1 MINUTES) EVERY 10 SECONDS",
     lambda: of_ticks(mean_delay(), median, MINUTE, 10 * S, 0))
case(7, "An INSIGHT can be an argument too.", MEAN_DELAY + "line_crowd = COMPUTE SUM(passengers) BY line EVERY 10 SECONDS;\nmoving_together = COMPUTE CORRELATION(INSIGHT mean_delay, INSIGHT line_crowd, 2 MINUTES) BY line EVERY 10 SECONDS",
     lambda: correlated(mean_delay(), over(of("passengers"), sum, 10 * S, 10 * S, ("line",)), 2 * MINUTE, 10 * S))
case(7, OF_TICKS + "; a calculated value", "gap_percentile = COMPUTE PERCENTILE[75](MAX(delay) - MIN(delay), 1 MINUTES) BY stop EVERY 10 SECONDS",
     lambda: of_ticks(over(DELAY, lambda v: max(v) - min(v), 10 * S, 10 * S, ("stop",)), percentile(75), MINUTE, 10 * S))

# 8. Bare names as texts -----------------------------------------------------------------------------------------------------

BARE = "a bare name is a text if no metric and no attribute has this name"
case(8, BARE, "east_cpu = COMPUTE ARITHMETIC_MEAN(cpu_util, 1 MINUTES) WHEN region == east EVERY 10 SECONDS",
     lambda: over(of("cpu_util", eq("region", "east")), mean, MINUTE, 10 * S))
case(8, "In a list after IN, a bare name is always a text.", "two_of_six = COMPUTE ARITHMETIC_MEAN(cpu_util) BY node_id WHEN node_id IN (node_1, node_6) EVERY 10 SECONDS",
     lambda: over(of("cpu_util", eq("node", "node_1", "node_6")), mean, 10 * S, 10 * S, ("node",)))
case(8, "The text of a point is its label with the name of the metric.", "malaria = COMPUTE COUNT(disease WHEN == malaria, 1 MINUTES) BY region EVERY 10 SECONDS",
     lambda: over(of("disease", eq("disease", "malaria")), len, MINUTE, 10 * S, ("region",)))
case(8, "The text of a point is its label with the name of the metric.", "others_of_children = COMPUTE COUNT(disease WHEN != malaria AND ward == children, 1 MINUTES) EVERY 10 SECONDS",
     lambda: over(of("disease", lambda p: p.get("disease") != "malaria" and p.get("ward") == "children"), len, MINUTE, 10 * S))
case(8, BARE, "two_lines = COMPUTE MAX(delay WHEN line == L1 OR line == L2, 30 SECONDS) BY stop EVERY 10 SECONDS",
     lambda: over(of("delay", eq("line", "L1", "L2")), max, 30 * S, 10 * S, ("stop",)))
case(8, "In a list after IN, a bare name is always a text (also where it is a metric).",
     "filed = COMPUTE COUNT(report WHEN quantity IN (delay, speed), 1 MINUTES) EVERY 10 SECONDS",
     lambda: over(of("report", eq("quantity", "delay", "speed")), len, MINUTE, 10 * S))
case(8, "NOT IN", "outskirts = COMPUTE MEDIAN(delay WHEN stop NOT IN (stop_1, stop_2), 30 SECONDS) BY line EVERY 10 SECONDS",
     lambda: over(of("delay", lambda p: p.get("stop") not in ("stop_1", "stop_2")), median, 30 * S, 10 * S, ("line",)))
case(8, BARE, "not_east = COMPUTE MIN(cost, 30 SECONDS) BY region WHEN NOT region == east EVERY 10 SECONDS",
     lambda: over(of("cost", lambda p: p.get("region") != "east"), min, 30 * S, 10 * S, ("region",)))
case(8, "A name consists of letters, digits, `_` and dots.", "front_cpu = COMPUTE MAX(cpu_util, 30 SECONDS) BY node WHEN service == web.front EVERY 10 SECONDS",
     lambda: over(of("cpu_util", eq("service", "web.front")), max, 30 * S, 10 * S, ("node",)))
case(8, BARE, "city_heat = COMPUTE MAX(temperature WHEN city == nicosia AND > 37, 30 SECONDS) BY ward EVERY 10 SECONDS",
     lambda: over(of("temperature", lambda p: p.get("city") == "nicosia" and p.value > 37), max, 30 * S, 10 * S, ("ward",)))

# 9. BY after an aggregate -------------------------------------------------------------------------------------------------

OPERAND = "A BY in the middle of an expression belongs to the operand before it, and needs no parentheses."
case(9, OPERAND, "riders_per_report = COMPUTE SUM(passengers, 1 MINUTES) BY line / COUNT(delay, 1 MINUTES) BY line EVERY 10 SECONDS",
     lambda: both(over(of("passengers"), sum, MINUTE, 10 * S, ("line",)), over(DELAY, len, MINUTE, 10 * S, ("line",)), ratio))
case(9, OPERAND, "events = COMPUTE COUNT(request, 30 SECONDS) BY region + COUNT(disease, 30 SECONDS) BY region EVERY 10 SECONDS",
     lambda: both(over(of("request"), len, 30 * S, 10 * S, ("region",)), over(of("disease"), len, 30 * S, 10 * S, ("region",)), lambda x, y: x + y))
case(9, "A function can reduce the values of several keys.", "two_fullest = COMPUTE TOP_K[2](SUM(passengers, 1 MINUTES) BY stop) EVERY 10 SECONDS",
     lambda: reduced(over(of("passengers"), sum, MINUTE, 10 * S, ("stop",)), lambda v: sorted(v, reverse=True)[:2]))
case(9, "An inner BY adds its attributes to the attributes of the outer BY.", "emptiest_stop = COMPUTE MIN(SUM(passengers, 1 MINUTES) BY stop) BY line EVERY 10 SECONDS",
     lambda: reduced(over(of("passengers"), sum, MINUTE, 10 * S, ("line", "stop")), min, 1))
case(9, OPERAND, "least_gap = COMPUTE MIN(ARITHMETIC_MEAN(delay) BY line - ARITHMETIC_MEAN(speed) BY line) EVERY 10 SECONDS",
     lambda: reduced(both(over(DELAY, mean, 10 * S, 10 * S, ("line",)), over(of("speed"), mean, 10 * S, 10 * S, ("line",)), lambda x, y: x - y), min))
case(9, OPERAND, "malaria_percent = COMPUTE 100 * COUNT(disease WHEN == malaria, 1 MINUTES) BY region / COUNT(disease, 1 MINUTES) BY region EVERY 10 SECONDS",
     lambda: both(over(of("disease", eq("disease", "malaria")), len, MINUTE, 10 * S, ("region",)), over(of("disease"), len, MINUTE, 10 * S, ("region",)), lambda x, y: 100 * x / y))
case(9, "part of the reference: SUM(x) BY city / SUM(x)", "stop_share = COMPUTE SUM(passengers, 30 SECONDS) BY stop / SUM(passengers, 30 SECONDS) EVERY 10 SECONDS",
     lambda: both(over(of("passengers"), sum, 30 * S, 10 * S, ("stop",)), over(of("passengers"), sum, 30 * S, 10 * S), ratio))
case(9, "In a condition, a BY after a function belongs to this function.",
     "rising = COMPUTE ARITHMETIC_MEAN(delay) BY line WHEN > ARITHMETIC_MEAN(delay, 2 MINUTES) BY line EVERY 10 SECONDS",
     lambda: (lambda slow: where(over(DELAY, mean, 10 * S, 10 * S, ("line",)), lambda k, t, v: v > slow[k, t]))(over(DELAY, mean, 2 * MINUTE, 10 * S, ("line",))))
case(9, "A value of the operand with fewer attributes is joined with all keys of the other operand that have the same values.",
     "share_of_line = COMPUTE SUM(passengers, 1 MINUTES) BY line, stop / SUM(passengers, 1 MINUTES) BY line EVERY 10 SECONDS",
     lambda: both(over(of("passengers"), sum, MINUTE, 10 * S, ("line", "stop")), over(of("passengers"), sum, MINUTE, 10 * S, ("line",)), ratio))
case(9, "COUNT(AVG(cpu.util, 1 MINUTE) BY node WHEN > 90)", "busy_nodes = COMPUTE COUNT(ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node WHEN > 60) BY region EVERY 10 SECONDS",
     lambda: reduced(where(over(of("cpu_util"), mean, 30 * S, 10 * S, ("region", "node")), lambda k, t, v: v > 60), len, 1))
case(9, OPERAND, "spread_and_mean = COMPUTE SQRT(VARIANCE(cpu_util, 30 SECONDS) BY node) / ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node + 1 EVERY 10 SECONDS",
     lambda: over(of("cpu_util"), lambda v: sdev(v) / mean(v) + 1, 30 * S, 10 * S, ("node",)))

if __name__ == "__main__":
    from collections import Counter

    print(Counter(c.group for c in CASES), len(CASES))
    for c in CASES:
        table = c.expected() if c.expected else None
        if table is not None and not table:
            print("empty", c.name)
        assert [v for v in (table or {}).values()].count(None) == 0, c.name
    assert len({c.name for c in CASES}) == len(CASES)
