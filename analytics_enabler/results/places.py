"""How many may follow results at once."""

from collections.abc import AsyncIterator

from analytics_enabler.instruments import FOLLOWERS
from mistbow.errors import UnavailableError


class Places:
    """Places for ``most`` followers; each holds a connection to the storage agent."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    async def one(self) -> AsyncIterator[None]:
        """Hold a place until the answer is sent; raises ``UnavailableError`` if all are taken.

        A dependency of FastAPI's, which also gives it back when the client leaves early.
        """
        if self._taken >= self._most:
            raise UnavailableError(
                f"{self._taken} follow results already; at most {self._most} may at once",
                hint="Ask for the results themselves now and then, or follow later.",
            )
        self._taken += 1
        try:
            with FOLLOWERS.track_inprogress():
                yield
        finally:
            self._taken -= 1
