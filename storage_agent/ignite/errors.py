"""The errors that state whether a write may happen although Ignite is unavailable."""

from mistbow.errors import UnavailableError


class NotSentError(UnavailableError):
    """Ignite is not connected, so nothing was sent to Ignite, and no write happens later."""


class UnansweredError(UnavailableError):
    """Ignite has not answered a write: the write may have happened, or may happen later."""
