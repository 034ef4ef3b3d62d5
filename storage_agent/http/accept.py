"""Content negotiation: the media type of an answer, as the header ``Accept`` selects."""

import re
from collections.abc import Sequence

from fastapi import Request
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from mistbow.errors import NotAcceptableError
from mistbow.streams import wire

JSON = "application/json"
LINES = "application/x-ndjson"
ARROW = wire.MEDIA_TYPE
ROW_TYPES = (JSON, LINES, ARROW)
"""The media types of answers that can be sent as rows; the first is the default."""

# Clients may name a charset, a version or a profile; the offered types have no parameters.
_PARAMETER = re.compile(r';\s*(?!q\s*=)[^=;,]+=\s*("(?:[^"\\]|\\.)*"|[^;,]*)', re.IGNORECASE)
# Some clients send it for every type.
_ASTERISK = re.compile(r"(?<![^\s,])\*(?![^\s,;])")
# Java before 9 sends such a quality, which is invalid.
_QUALITY_WITHOUT_ZERO = re.compile(r"(;\s*q=)\.", re.IGNORECASE)


def accept_of(request: Request) -> bytes | None:
    """Return the header ``Accept`` of a request; None: the request has no such header."""
    accept = request.headers.getlist("accept")
    return ",".join(accept).encode("latin-1") if accept else None


def negotiate(accept: bytes | None, offered: Sequence[str]) -> str:
    """Return the offered media type that a request accepts best; the first is the default.

    ``accept``: the header ``Accept``. Raises ``NotAcceptableError``.

    >>> negotiate(b"application/x-ndjson;q=0.5, application/vnd.apache.arrow.stream", ROW_TYPES)
    'application/vnd.apache.arrow.stream'
    >>> negotiate(b"text/html, */*; q=.2", ROW_TYPES), negotiate(None, ROW_TYPES)
    ('application/json', 'application/json')
    """
    if accept is None or accept == b"*/*":
        return offered[0]
    text = _ASTERISK.sub("*/*", _PARAMETER.sub("", accept.decode("latin-1")))
    text = _QUALITY_WITHOUT_ZERO.sub(r"\g<1>0.", text)
    accepted = parse_accept_header(text, MIMEAccept)
    if not accepted:
        return offered[0]
    best = accepted.best_match(offered)
    if best is None:
        raise NotAcceptableError(
            f"Accept: this request has no answer in {text[:100]}",
            hint=f"Send Accept: {', or '.join(offered)}.",
        )
    return best
