"""The steps that windows are cut into: which are large enough, and what to write where none is."""

from analytics_enabler.limits import MOST_PANES
from grammar.units import MILLIS, in_words

SHORT_MS = (60_000, 30_000, 10_000, 5000, 2000, 1000, 500, 200, 100)
"""Steps in which values at points are told."""

LONG_MS = (300_000, 600_000, 900_000, 1_800_000, 3_600_000)
"""The same, of windows that are too long for shorter ones."""

_HOUR_MS = MILLIS["HOURS"]
_ROUND_MS = (*reversed(SHORT_MS), *LONG_MS, 6 * _HOUR_MS, 12 * _HOUR_MS, 24 * _HOUR_MS)


def is_cut(size_ms: int, step_ms: int) -> bool:
    """Return whether a window is of no more such steps than it may have."""
    return size_ms <= step_ms * MOST_PANES


def advice_at_points(size_ms: int) -> str:
    """Return what to write for a window that ends at points and is of too many steps."""
    step = _divisor(size_ms)
    if step is None:
        return f"Choose a window of round length, such as {_rounded(size_ms, _least(size_ms))}."
    return f"Say how often instead, as in `EVERY {in_words(step)}`."


def advice_at_ticks(size_ms: int, every_ms: int) -> str:
    """Return what to write for a window that is of too many steps, with an EVERY so long."""
    if is_cut(size_ms, every_ms):
        window = _rounded(size_ms, every_ms)
        return f"Choose a window that is a multiple of the EVERY interval, such as {window}."
    step = _divisor(size_ms)
    if step is None:
        step = _least(size_ms)
        window = _rounded(size_ms, step)
        return f"Choose a window of {window}, say, and an EVERY of {in_words(step)}."
    return f"Choose an EVERY of 1/{MOST_PANES} of the window at least, such as {in_words(step)}."


def advice_at_a_time(size_ms: int) -> str:
    """Return what to write for a window that is of too many steps, and ends at a time of day."""
    minutes = _rounded(size_ms, MILLIS["MINUTES"])
    return f"Choose a window of whole minutes, such as {minutes}."


def _least(size_ms: int) -> int:
    return next(step for step in _ROUND_MS if is_cut(size_ms, step))


def _divisor(size_ms: int) -> int | None:
    fit = (step for step in _ROUND_MS if is_cut(size_ms, step) and size_ms % step == 0)
    return next(fit, None)


def _rounded(size_ms: int, step_ms: int) -> str:
    return in_words(-(-size_ms // step_ms) * step_ms)
