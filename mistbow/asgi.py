"""The ASGI extensions by which the protocol and the middleware of a service work together."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

CLIENT_CERTIFICATE = "mistbow.client_certificate"
"""The extension of a request whose client has shown a valid certificate."""

COMPLETE_BODY = "mistbow.complete_body"
"""The extension with the function ``received``, which returns whether the whole body of a request
was received.
"""

WHOLE_ANSWER = "mistbow.whole_answer"
"""The extension with the function ``send``, which takes (status, lines of headers, body).

It writes an answer at once, and returns True; it returns False if it cannot, for example while the
client reads too slowly. ASGI's messages take several times as long.
"""

CLOSE_CONNECTION = "mistbow.close_connection"
"""The extension with the function ``close``, which closes the connection of a request."""


def extension(scope: Scope, name: str) -> Mapping[str, Any] | None:
    """Return an extension of a request; None: the protocol does not have it.

    A server may send no extensions, or None for them.

    >>> extension({"extensions": {CLIENT_CERTIFICATE: {}}}, CLIENT_CERTIFICATE)
    {}
    >>> extension({"extensions": None}, CLIENT_CERTIFICATE), extension({}, CLIENT_CERTIFICATE)
    (None, None)
    """
    extensions = scope.get("extensions")
    found: Mapping[str, Any] | None = extensions.get(name) if extensions else None
    return found
