"""The signatures of answers to signed requests, for answers that must not be altered."""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ANSWER_MAC = "Mistbow-Answer"
"""The header of an answer with its MAC (hexadecimal)."""


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The key that signs the answer to a request: the session's key, and the request's number."""

    session_key: bytes
    number: int

    def sign(self, body: bytes) -> str:
        """Return the MAC (hexadecimal) of an answer with this body."""
        hashed = hashlib.sha256(body).hexdigest()
        text = f"answer\n{self.number}\n{hashed}"
        return hmac.digest(self.session_key, text.encode(), "sha256").hex()

    def is_valid(self, body: bytes, headers: Mapping[str, str]) -> bool:
        """Return whether the headers of an answer have the MAC of its body."""
        return hmac.compare_digest(self.sign(body).encode(), headers.get(ANSWER_MAC, "").encode())


_current: ContextVar[AnswerKey | None] = ContextVar("answer_key", default=None)


def answer_headers(body: bytes) -> dict[str, str]:
    """Return the headers that sign the answer to the present request; empty: no key."""
    key = _current.get()
    return {} if key is None else {ANSWER_MAC: key.sign(body)}


@contextmanager
def answering_with(key: AnswerKey | None) -> Iterator[None]:
    """Let ``answer_headers`` sign with a key inside the ``with`` block."""
    before = _current.set(key)
    try:
        yield
    finally:
        _current.reset(before)
