"""The header ``Idempotency-Key``, by which the agent recognizes a repeated request."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Header

from mistbow.errors import InvalidRequestError

_MAX_LENGTH = 200
_HEADER = b"idempotency-key"

IdempotencyKey = Annotated[str | None, Header()]
"""The type of the parameter ``idempotency_key`` of a route, which FastAPI reads from the header."""

KEY_PARAMETER: dict[str, Any] = {
    "parameters": [
        {
            "name": _HEADER.decode(),
            "in": "header",
            "required": False,
            "schema": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Idempotency-Key"},
        }
    ]
}
"""The OpenAPI description of the header, for routes whose headers FastAPI does not read."""


def idempotency_key_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return a request's idempotency key; None if the request has no such key.

    ``headers``: the headers of the request, their names in lower case.
    """
    key = headers.get(_HEADER)
    return None if key is None else key.decode("latin-1")


def check_idempotency_key(key: str | None) -> None:
    """Raise ``InvalidRequestError`` if an idempotency key is empty or too long; None is valid."""
    if key is not None and not 1 <= len(key) <= _MAX_LENGTH:
        raise InvalidRequestError(
            f"Idempotency-Key: the length must be 1 to {_MAX_LENGTH} characters (got {len(key)})"
        )
