"""When insights have values, as ``docs/language.md`` says."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from grammar import ast


def every_of(insight: ast.Insight) -> int | None:
    """Return the interval (ms) of EVERY, None where values are at points."""
    match insight.every:
        case ast.Interval(millis):
            return millis
        case ast.Daily(days):
            return days * 86_400_000
        case _:
            return None


def ticks_of(insight: ast.Insight, until: int) -> list[int]:
    """Return the ticks (ms) of an insight up to a time, by the clocks that Python knows."""
    every = every_of(insight) or until + 1
    if not isinstance(insight.every, ast.Daily):
        return list(range(every, until + 1, every))
    at, zone = insight.every.at, ZoneInfo(insight.every.zone)
    days = range(0, until // 86_400_000 + 2, insight.every.days)
    shown = [datetime.combine(date(1970, 1, 1) + timedelta(day), at, zone) for day in days]
    told = [round(each.timestamp() * 1000) for each in shown]
    return [tick for tick in told if 0 < tick <= until]
