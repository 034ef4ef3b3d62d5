"""The ticks of insights, computed as ``docs/language.md`` defines them."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from grammar import ast


def every_of(insight: ast.InsightStatement) -> int | None:
    """Return the interval of EVERY (ms); None if the insight has values at points."""
    match insight.every:
        case ast.Interval(millis):
            return millis
        case ast.Daily(days):
            return days * 86_400_000
        case _:
            return None


def ticks_of(insight: ast.InsightStatement, since: int, until: int) -> list[int]:
    """Return the ticks (ms) of an insight after ``since`` up to ``until``; none without EVERY."""
    every = every_of(insight)
    if every is None:
        return []
    if not isinstance(insight.every, ast.Daily):
        return list(range((since // every + 1) * every, until + 1, every))
    at, zone = insight.every.at, ZoneInfo(insight.every.zone)
    days = range(0, until // 86_400_000 + 2, insight.every.days)
    local = [datetime.combine(date(1970, 1, 1) + timedelta(day), at, zone) for day in days]
    ticks = [round(each.timestamp() * 1000) for each in local]
    return [tick for tick in ticks if since < tick <= until]
