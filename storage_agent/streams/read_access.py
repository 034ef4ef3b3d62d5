"""Controls read access to streams.

If the name of a stream contains a signature, only callers with this signature may read the stream.
"""

from mistbow.auth.callers import current_caller
from mistbow.streams.signatures import signature_of


def check_readable(stream: str) -> None:
    """Raise ``ForbiddenError`` if the caller lacks the signature in the name of a stream."""
    current_caller().check_signature(f"the stream {stream}", signature_of(stream))


def is_readable(stream: str) -> bool:
    """Return whether the caller may read the rows of a stream."""
    return current_caller().has_signature(signature_of(stream))
