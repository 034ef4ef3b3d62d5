"""The limit on the number of open result streams."""

from collections import Counter
from collections.abc import AsyncIterator

from analytics_enabler.metrics import FOLLOWERS
from mistbow.auth.callers import current_caller
from mistbow.errors import UnavailableError

_TOKENS = 2
"""The number of tokens that can have the maximum number of followers at the same time."""


class FollowerLimit:
    """Limits the open result streams, because each stream uses a connection to the agent.

    ``max_followers``: the maximum number for each token, so that the followers with one token do
    not exclude all others; the maximum number for all tokens is twice as high.
    """

    def __init__(self, max_followers: int) -> None:
        self._max_followers = max_followers
        self._followers: Counter[str] = Counter()

    async def follower(self) -> AsyncIterator[None]:
        """Count a client that follows results until the response to this client ends.

        Raises ``UnavailableError`` at the limit. This function is a FastAPI dependency: FastAPI
        also closes the generator when the client disconnects.
        """
        token = current_caller().name
        self._check(token)
        self._followers[token] += 1
        try:
            with FOLLOWERS.track_inprogress():
                yield
        finally:
            self._followers[token] -= 1
            if not self._followers[token]:
                del self._followers[token]

    def _check(self, token: str) -> None:
        total, own = self._followers.total(), self._followers[token]
        if own >= self._max_followers:
            problem = f"{own} clients follow results with the same token"
        elif total >= _TOKENS * self._max_followers:
            problem = f"{total} clients follow results"
        else:
            return
        raise UnavailableError(
            f"{problem}, which is the maximum",
            hint="Poll the results instead, or follow them later.",
        )
