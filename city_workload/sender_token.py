"""The token of a sender, in a file that may be replaced while the sender runs."""

from collections.abc import Generator
from pathlib import Path

import httpx
import structlog

from mistbow.files import file_stamp
from mistbow.trust_settings import read_token

_log = structlog.get_logger(__name__)


class SenderToken(httpx.Auth):
    """The bearer token in a file, which is read again when the file changes.

    While the file is missing or invalid, the last token is sent. Raises ``ValueError`` if the file
    contains no token at first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = file_stamp(path)
        self._token = read_token(path)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield the request with the present token."""
        self._refresh()
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request

    def _refresh(self) -> None:
        stamp = file_stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._token = read_token(self._path)
        except ValueError as error:
            _log.warning("sender_token_rejected", file=str(self._path), error=str(error))
