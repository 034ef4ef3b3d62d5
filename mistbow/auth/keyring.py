"""The tokens that a service accepts: the fog's own token, and the tokens in the token file."""

import hmac
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from mistbow.auth.callers import FOG, Caller
from mistbow.auth.token_file import Token, TokenFile, read_token_file
from mistbow.clock import utc_now
from mistbow.errors import InvalidRequestError
from mistbow.files import FileStamp, file_stamp
from mistbow.telemetry import get_logger

log = get_logger(__name__)

PROBE = Caller("of the health check", frozenset({"read"}))
"""The caller of a health check in the container of a service that has an identity."""


class Keyring:
    """Finds the caller of each accepted token.

    ``own``: the fog's token; empty: the fog has none, since its services have identities.
    ``probe``: the token of the service's own health check; empty: no such token exists.

    A changed token file is read again, so that revocations take effect. While the file is missing
    or invalid, no token of the file is accepted, because the earlier content may contain tokens
    that have been revoked since then.
    """

    def __init__(
        self,
        own: str,
        file: Path | None,
        clock: Callable[[], datetime] = utc_now,
        probe: str = "",
    ) -> None:
        self._own = own.encode()
        self._probe = probe.encode()
        self._path = file
        self._clock = clock
        self._stamp: FileStamp | None = None
        self._file: TokenFile | None = None
        self._problem: str | None = None
        self._by_hash: dict[str, Token] = {}

    def find(self, token: bytes) -> Caller | None:
        """Return the caller that a token belongs to; None: the token is unknown or expired."""
        if self._own and hmac.compare_digest(token, self._own):
            return FOG
        if self._probe and hmac.compare_digest(token, self._probe):
            return PROBE
        if self._path is None:
            return None
        self._refresh(self._path)
        if self._file is None:
            return None
        # The time of this look-up reveals nothing about the token, only about its hash.
        found = self._by_hash.get(self._file.hash_of(token.decode("latin-1")))
        if found is None or found.is_expired(self._clock()):
            return None
        return found.caller

    def warnings(self) -> list[str]:
        """Return a warning while the token file is missing or invalid; the file is read if new."""
        if self._path is None:
            return []
        self._refresh(self._path)
        return [] if self._problem is None else [f"MISTBOW_TOKENS_FILE: {self._problem}"]

    def _refresh(self, path: Path) -> None:
        stamp = file_stamp(path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._file = read_token_file(path)
        except InvalidRequestError as error:
            log.error("token_file_rejected", error=error.message)
            self._file, self._by_hash = None, {}
            self._problem = f"no token of the file is accepted until it is repaired: {error.text}"
            return
        self._problem = None
        self._by_hash = {each.hash: each for each in self._file.tokens}
        log.info("token_file_read", tokens=len(self._by_hash))
