"""Who may read a stream: where its name says that it is signed, whoever carries the signature."""

from mistbow.auth.callers import current_caller
from mistbow.streams.signatures import signature_of


def check_readable(stream: str) -> None:
    """Refuse a caller without the stream's signature; raises ``ForbiddenError``."""
    current_caller().check_signature(f"the stream {stream}", signature_of(stream))


def is_readable(stream: str) -> bool:
    """Tell whether the caller may read a stream's rows."""
    return current_caller().carries(signature_of(stream))
