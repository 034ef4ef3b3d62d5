"""The idempotency key of a request, which also identifies the body of the request."""

from dataclasses import dataclass, replace

from mistbow.auth.callers import Caller
from mistbow.errors import ReusedKeyError

BODY_MARK = "\r"
"""Marks the keys that agents derive from bodies; a client cannot send this mark in a header.

The mark is inside a key: the caller's name precedes it.
"""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The idempotency key of a request, and the digest of the request's body.

    ``digest``: 0: unknown, or a part of the key itself.
    """

    text: str
    digest: int = 0

    @classmethod
    def of_body(cls, protocol: str, digest: str) -> "RequestKey":
        """Return the key of a body that its client sent without a key.

        ``digest``: identifies the body among the bodies of the protocol.
        """
        return cls(f"{BODY_MARK}{protocol}/{digest}")

    def of(self, caller: Caller) -> "RequestKey":
        """Return the key with the caller's name; see ``Caller.scoped_key``."""
        return replace(self, text=caller.scoped_key(self.text))

    def check(self, digest: int) -> None:
        """Raise ``ReusedKeyError`` if an earlier request with this key had another body.

        ``digest``: the digest of the earlier request's body; 0: unknown.
        """
        if self.digest and digest and self.digest != digest:
            key = self.text.rpartition("\n")[2]
            raise ReusedKeyError(
                f"the Idempotency-Key {key!r} was already used for another body, "
                "so nothing of this body was stored",
                hint="Send a new key with each new body, and the same key only to repeat a body.",
            )
