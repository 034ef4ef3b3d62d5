"""FUNCTIONs, sets on the right of IN, and operators of users."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import (
    MINUTE,
    SECOND,
    Point,
    eq,
    legal_countries,
    of,
)
from tests.analytics_worker.conformance.independent.tables import both, mean, over, ratio

LISTS = "The left side of IN and the list after it may be calls of an operator over attributes"


def legally(p: Point) -> bool:
    """Return whether a movie is requested from a country in which it may be shown."""
    return p.get("country") in legal_countries(p.get("movie"))


DELAY = of("delay")

EXPECTATIONS = (
    Expectation(
        (
            "legal = COMPUTE COUNT(request WHEN ipToCountry(ip) IN legalCountries(movie), 1 "
            "MINUTES) EVERY 10 SECONDS"
        ),
        reference=LISTS,
        values=lambda: over(of("request", legally), len, MINUTE, 10 * SECOND),
    ),
    Expectation(
        (
            "illegal_share = COMPUTE COUNT(request WHEN ipToCountry(ip) NOT IN "
            "legalCountries(movie), 1 MINUTES) / COUNT(request, 1 MINUTES) EVERY 10 SECONDS"
        ),
        reference=LISTS,
        values=lambda: both(
            over(of("request", lambda p: not legally(p)), len, MINUTE, 10 * SECOND),
            over(of("request"), len, MINUTE, 10 * SECOND),
            ratio,
        ),
    ),
    Expectation(
        (
            'FUNCTION island_countries(movie) { ("CY", "GR") };\n'
            "island = COMPUTE COUNT(request WHEN country IN island_countries(movie), 1 MINUTES) "
            "BY movie EVERY 10 SECONDS"
        ),
        reference="The body of a FUNCTION may be such a list too",
        values=lambda: over(
            of("request", eq("country", "CY", "GR")), len, MINUTE, 10 * SECOND, ("movie",)
        ),
    ),
    Expectation(
        (
            "FUNCTION central_stops(line) { (stop_1, stop_3) };\n"
            "central_delay = COMPUTE ARITHMETIC_MEAN(delay WHEN stop IN central_stops(line), "
            "1 MINUTES) EVERY 10 SECONDS"
        ),
        reference=(
            "In a list after IN, a bare name is always a text; the body of a FUNCTION may be "
            "such a list too."
        ),
        values=lambda: over(of("delay", eq("stop", "stop_1", "stop_3")), mean, MINUTE, 10 * SECOND),
    ),
    Expectation(
        (
            "FUNCTION late_share(metric, limit) { COUNT(metric WHEN > limit, 1 MINUTES) / "
            "COUNT(metric, 1 MINUTES) };\n"
            "line_late_share = COMPUTE late_share(delay, 2) BY line EVERY 10 SECONDS"
        ),
        reference="argument of an aggregate: a metric; in a condition: a number",
        values=lambda: both(
            over(of("delay", lambda p: p.value > 2), len, MINUTE, 10 * SECOND, ("line",)),
            over(DELAY, len, MINUTE, 10 * SECOND, ("line",)),
            ratio,
        ),
    ),
    Expectation(
        (
            "FUNCTION to_fahrenheit(c) { c * 9 / 5 + 32 };\n"
            "ward_heat = COMPUTE to_fahrenheit(ARITHMETIC_MEAN(temperature, 1 MINUTES)) BY city "
            "EVERY 10 SECONDS"
        ),
        reference="elsewhere: a value",
        values=lambda: {
            at: v * 9 / 5 + 32
            for at, v in over(of("temperature"), mean, MINUTE, 10 * SECOND, ("city",)).items()
        },
    ),
    Expectation(
        (
            "cypriot = COMPUTE COUNT(request, 1 MINUTES) BY movie WHEN ipToCountry(ip) IN (CY, "
            "GR) EVERY 10 SECONDS"
        ),
        reference="A condition at the end: points",
        values=lambda: over(
            of("request", eq("country", "CY", "GR")), len, MINUTE, 10 * SECOND, ("movie",)
        ),
    ),
    Expectation(
        (
            "FUNCTION spread(metric, place) { MAX(metric, 30 SECONDS) - MIN(metric, 30 SECONDS) "
            "BY place };\n"
            "heat_spread = COMPUTE spread(temperature, region) EVERY 10 SECONDS"
        ),
        reference="in FROM or BY: a name",
        values=lambda: over(
            of("temperature"), lambda v: max(v) - min(v), 30 * SECOND, 10 * SECOND, ("region",)
        ),
    ),
    Expectation(
        (
            "german = COMPUTE COUNT(request WHEN ipToCountry(ip) IN (FR) AND movie != Zorba, 1 "
            "MINUTES) BY region EVERY 10 SECONDS"
        ),
        reference=LISTS,
        values=lambda: over(
            of("request", lambda p: p.get("country") == "FR" and p.get("movie") != "Zorba"),
            len,
            MINUTE,
            10 * SECOND,
            ("region",),
        ),
    ),
    Expectation(
        (
            "local = COMPUTE COUNT(request WHEN country IN legalCountries(movie) OR movie == "
            "tootsie, 30 SECONDS) BY node EVERY 10 SECONDS"
        ),
        reference=LISTS,
        values=lambda: over(
            of("request", lambda p: legally(p) or p.get("movie") == "tootsie"),
            len,
            30 * SECOND,
            10 * SECOND,
            ("node",),
        ),
    ),
)
