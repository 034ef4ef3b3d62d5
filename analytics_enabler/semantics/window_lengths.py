"""The lengths of windows, offsets and intervals: limits, defaults and hints."""

from analytics.plan.functions import ACCUMULATED
from analytics_enabler.limits import MAX_PANES
from analytics_enabler.semantics.diagnostics import error
from grammar import Diagnostic, ast
from grammar.units import MILLIS, in_words

MIN_MS = 100
MAX_MS = 366 * 86_400_000
CURRENT_MS = 60_000
"""The age (ms) up to which a latest value is current; see ``current_ms``."""

DEFAULT_TICKS = 60
"""The number of ticks that a function over values of ticks has without a window."""

WITHOUT_WINDOW = ACCUMULATED | {"LATEST"}
"""The functions whose window is determined by the insight's trigger, not by the call."""

SHORT_MS = (60_000, 30_000, 10_000, 5000, 2000, 1000, 500, 200, 100)
"""The intervals (ms) at which values at points can be evaluated, longest first."""

LONG_MS = (300_000, 600_000, 900_000, 1_800_000, 3_600_000)
"""Longer intervals (ms) between evaluations.

They are used for windows that would have too many panes with the intervals of ``SHORT_MS``.
"""

_HOUR_MS = MILLIS["HOURS"]
_ROUND_MS = (*reversed(SHORT_MS), *LONG_MS, 6 * _HOUR_MS, 12 * _HOUR_MS, 24 * _HOUR_MS)


def series_ticks(size_ms: int | None, every_ms: int) -> int:
    """Return the number of ticks in the window of a function over values of ticks.

    ``size_ms``: the length of the window; None: the text gives none.
    """
    return DEFAULT_TICKS if size_ms is None else -(-size_ms // every_ms)


def current_ms(every_ms: int) -> int:
    """Return the age (ms) up to which a latest value is current.

    The age is ``CURRENT_MS``, rounded up to a multiple of the insight's interval ``every_ms``.
    """
    return -(-CURRENT_MS // every_ms) * every_ms


def length_error(interval: ast.Interval, what: str) -> Diagnostic | None:
    """Return an error for an interval that is too short or too long; None for a valid interval.

    ``what``: the phrase for the interval in the message.
    """
    if MIN_MS <= interval.millis <= MAX_MS:
        return None
    size = "short" if interval.millis < MIN_MS else "long"
    return error(
        interval.span,
        f"{what} of {in_words(interval.millis)} is too {size}",
        f"The length must be from {in_words(MIN_MS)} to {in_words(MAX_MS)}.",
    )


def fits(size_ms: int, step_ms: int, panes: int = MAX_PANES) -> bool:
    """Return whether a window consists of at most ``panes`` panes of the width ``step_ms``."""
    return size_ms <= step_ms * panes


def hint_at_points(size_ms: int) -> str:
    """Return the hint for a window with too many panes, in an insight with values at points."""
    step = _divisor(size_ms)
    if step is None:
        return (
            f"Choose a window of round length, such as {_rounded_up(size_ms, _min_step(size_ms))}."
        )
    return f"Add an EVERY, as in `EVERY {in_words(step)}`."


def hint_at_ticks(size_ms: int, every_ms: int) -> str:
    """Return the hint for a window with too many panes, in an insight with values at ticks."""
    if fits(size_ms, every_ms):
        window = _rounded_up(size_ms, every_ms)
        return f"Choose a window that is a multiple of the EVERY interval, such as {window}."
    step = _divisor(size_ms)
    if step is None:
        step = _min_step(size_ms)
        window = _rounded_up(size_ms, step)
        return f"Choose, for example, a window of {window} and an EVERY of {in_words(step)}."
    return f"Choose an EVERY of at least 1/{MAX_PANES:,} of the window, such as {in_words(step)}."


def hint_at_a_time(size_ms: int) -> str:
    """Return the hint for a window with too many panes, in an insight with EVERY … AT."""
    minutes = _rounded_up(size_ms, MILLIS["MINUTES"])
    return f"Choose a window of whole minutes, such as {minutes}."


def _min_step(size_ms: int) -> int:
    return next(step for step in _ROUND_MS if fits(size_ms, step))


def _divisor(size_ms: int) -> int | None:
    divisors = (step for step in _ROUND_MS if fits(size_ms, step) and size_ms % step == 0)
    return next(divisors, None)


def _rounded_up(size_ms: int, step_ms: int) -> str:
    return in_words(-(-size_ms // step_ms) * step_ms)
