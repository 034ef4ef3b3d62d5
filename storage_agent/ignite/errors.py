"""The errors that state whether a write may happen although Ignite is unavailable."""

import asyncio

from mistbow.errors import UnavailableError


class NotSentError(UnavailableError):
    """Ignite is not connected, so nothing was sent to Ignite, and no write happens later."""


class UnansweredError(UnavailableError):
    """Ignite has not answered a write: the write may have happened, or may happen later."""


def may_happen(error: BaseException) -> bool:
    """Return whether a write that raised an error may have happened, or may happen later."""
    is_unknown = isinstance(error, UnavailableError | asyncio.CancelledError)
    return is_unknown and not isinstance(error, NotSentError)


_UNCERTAINTY = {NotSentError: 0, UnansweredError: 2}
"""How uncertain the outcome of a write is after an error; 1 after others."""


def more_uncertain(former: UnavailableError, latest: UnavailableError) -> UnavailableError:
    """Return the error of two attempts to write that leaves the outcome more uncertain.

    An unanswered write may still happen, whatever a later attempt reports. Of equal errors, the
    latest is returned.
    """
    return max(latest, former, key=lambda each: _UNCERTAINTY.get(type(each), 1))
