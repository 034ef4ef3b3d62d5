"""The header ``Idempotency-Key``, by which the agent recognizes a repeated request."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import Header

from mistbow.errors import InvalidRequestError
from storage_agent.request_key import RequestKey

_MAX_LENGTH = 200
_DIGEST_BYTES = 7
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


def header_key(headers: Mapping[bytes, bytes], body: bytes) -> RequestKey | None:
    """Return the key of a request with a body; None: the request has no idempotency key.

    ``headers``: the headers of the request, their names in lower case. Raises
    ``InvalidRequestError`` for an invalid key.
    """
    key = headers.get(_HEADER)
    return None if key is None else request_key(key.decode("latin-1"), body)


def request_key(key: str | None, body: bytes, unit: str = "") -> RequestKey | None:
    """Return the key of a request with a body; None: the request has no idempotency key.

    ``unit``: the unit of the body's times, if a parameter gives it. Raises ``InvalidRequestError``
    if the key is empty or too long.
    """
    if key is None:
        return None
    if not 1 <= len(key) <= _MAX_LENGTH:
        raise InvalidRequestError(
            f"Idempotency-Key: the length must be 1 to {_MAX_LENGTH} characters (got {len(key)})",
            hint="Send a text of your choice, such as a UUID, that no other request has.",
        )
    hashed = blake2b(body, digest_size=_DIGEST_BYTES, person=unit.encode())
    # The digest is above 0: 0 means an unknown digest.
    return RequestKey(key, 1 + int.from_bytes(hashed.digest(), "big"))
