"""The errors that Mistbow's services and clients raise.

A service answers an error with its ``status`` and the body ``{"error": {"code", "message", "hint",
"details"}, "result": "ERROR", "message"}``; the client raises an error of the same class. Clients
of RAINBOW's storage read the outer fields ``result`` and ``message``.
"""

import json
from typing import Any, ClassVar

from mistbow.os_faults import OsFault

_MAX_TEXT = 4000
"""The maximum number of characters of a message or a hint, which may quote the request."""


def bounded(text: str) -> str:
    """Return the text of an error; a long text without its middle.

    >>> len(bounded("x" * 10_000)), bounded("short")
    (4000, 'short')
    """
    half = _MAX_TEXT // 2
    return text if len(text) <= _MAX_TEXT else f"{text[:half]} … {text[3 - half :]}"


class MistbowError(Exception):
    """The base class of errors: a message, a hint on the correction, and details (any JSON).

    A long message or hint is shortened.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, details: Any = None) -> None:
        self.message = bounded(message)
        self.hint = None if hint is None else bounded(hint)
        super().__init__(self.message)
        self.details = details

    @property
    def text(self) -> str:
        """The message and, if there is one, the hint after it.

        >>> MistbowError("the disk is full", hint="Remove files").text
        'the disk is full. Remove files'
        >>> MistbowError("the disk is full").text
        'the disk is full'
        """
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def body(self) -> dict[str, Any]:
        """Return the JSON body of this error."""
        error = {"code": self.code, "message": self.message}
        if self.hint is not None:
            error["hint"] = self.hint
        if self.details is not None:
            error["details"] = self.details
        return {"error": error, "result": "ERROR", "message": self.message}


class InvalidRequestError(MistbowError):
    """The request is invalid."""

    code = "invalid_request"
    status = 400


class InvalidQueryError(MistbowError):
    """A text of insights has errors; ``details`` lists the errors with line, column and hint."""

    code = "invalid_query"
    status = 400


class UnauthorizedError(MistbowError):
    """The request has no valid token."""

    code = "unauthorized"
    status = 401


class ForbiddenError(MistbowError):
    """The token lacks a scope or a signature, or has a prefix that excludes an entity; or a foreign
    web page may have sent the request.
    """

    code = "forbidden"
    status = 403


class OutOfReachError(MistbowError):
    """The service that sent the request does not have this right at this site."""

    code = "out_of_reach"
    status = 403


class NotFoundError(MistbowError):
    """The resource that the request names does not exist."""

    code = "not_found"
    status = 404


class MethodNotAllowedError(MistbowError):
    """The path does not take the method of the request."""

    code = "method_not_allowed"
    status = 405


class NotAcceptableError(MistbowError):
    """The service cannot give the answer in a media type that the request accepts."""

    code = "not_acceptable"
    status = 406


class SlowRequestError(MistbowError):
    """The service did not receive the request's body in time."""

    code = "slow_request"
    status = 408


class ConflictError(MistbowError):
    """The request conflicts with stored data, for example with an existing name."""

    code = "conflict"
    status = 409


class FencedError(MistbowError):
    """The writer is fenced: another writer has the lease of the stream, with a greater epoch."""

    code = "fenced"
    status = 409


class PreconditionFailedError(MistbowError):
    """The resource has changed since the version that the request names in ``If-Match``."""

    code = "precondition_failed"
    status = 412


class TooLargeError(MistbowError):
    """The body of the request, or its answer, exceeds a limit."""

    code = "too_large"
    status = 413


class UnsupportedError(MistbowError):
    """The media type or the encoding of the body is not supported."""

    code = "unsupported"
    status = 415


class ReusedKeyError(MistbowError):
    """The idempotency key of the request belongs to an earlier request with another body."""

    code = "reused_key"
    status = 422


class MisdirectedError(MistbowError):
    """The request was sent to an address that is not the service's own."""

    code = "misdirected"
    status = 421


class TooManyRequestsError(MistbowError):
    """The service has reached its limit of concurrent requests; a retry may succeed."""

    code = "too_many_requests"
    status = 429


class HeadTooLargeError(MistbowError):
    """The request line and the headers have too many bytes."""

    code = "head_too_large"
    status = 431


class UnavailableError(MistbowError):
    """A service that the request needs is unavailable; a retry may succeed."""

    code = "unavailable"
    status = 503


class StartingError(UnavailableError):
    """The service answers already, but its parts are still starting."""

    code = "starting"


class CapacityError(UnavailableError):
    """The worker has too little memory for one more fragment; ``details`` gives the figures."""

    code = "no_capacity"


class LostDataError(UnavailableError):
    """Ignite lost acknowledged rows of the stream; the stream is refused until it is repaired."""

    code = "lost_data"


class StorageFullError(MistbowError):
    """The maximum size of a stream, of all streams, or of the spool is reached."""

    code = "storage_full"
    status = 507


def unavailable_by(fault: OsFault) -> UnavailableError:
    """Return the error of a request that failed because of a fault of the machine."""
    return UnavailableError(fault.message, hint=f"Tell the operator: {fault.hint}.")


ERRORS: tuple[type[MistbowError], ...] = (
    MistbowError,
    InvalidRequestError,
    InvalidQueryError,
    UnauthorizedError,
    ForbiddenError,
    OutOfReachError,
    NotFoundError,
    MethodNotAllowedError,
    NotAcceptableError,
    SlowRequestError,
    ConflictError,
    FencedError,
    PreconditionFailedError,
    TooLargeError,
    UnsupportedError,
    ReusedKeyError,
    MisdirectedError,
    TooManyRequestsError,
    HeadTooLargeError,
    UnavailableError,
    StartingError,
    CapacityError,
    LostDataError,
    StorageFullError,
)
"""All classes of errors that a service can answer."""

_BY_CODE: dict[str, type[MistbowError]] = {cls.code: cls for cls in ERRORS}

_BY_STATUS_OF_PROXY: dict[int, type[MistbowError]] = {
    408: SlowRequestError,
    413: TooLargeError,
    429: TooManyRequestsError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def from_body(status: int, body: Any) -> MistbowError:
    """Return the error that an answer describes.

    The code in the answer's body determines the class of the error. An answer without a code may
    come from a proxy, for example if the service restarts. Then ``status`` determines the class, if
    the status shows whether a repeated request can succeed. Error bodies of Prometheus' API contain
    only a message.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        kind = _BY_STATUS_OF_PROXY.get(status, MistbowError)
        message = error if isinstance(error, str) else f"the service answered with status {status}"
        return kind(message, details=body)
    kind = _BY_CODE.get(str(error.get("code")), MistbowError)
    return kind(str(error.get("message", "")), hint=error.get("hint"), details=error.get("details"))


def from_answer(status: int, content: bytes) -> MistbowError:
    """Return the error that an answer describes; ``content``: the body of the answer.

    >>> from_answer(404, b'{"error": {"code": "not_found", "message": "no"}}').code
    'not_found'
    >>> from_answer(502, b"<html>Bad Gateway</html>").details
    '<html>Bad Gateway</html>'
    """
    try:
        body = json.loads(content)
    except ValueError:
        body = content[:500].decode(errors="replace")
    return from_body(status, body)


def of_status(status: int, message: str, *, hint: str | None = None) -> MistbowError:
    """Return the error for an HTTP status; if no class has this status, the error is a 400 or 500.

    >>> of_status(405, "no").code, of_status(418, "no").code, of_status(502, "no").code
    ('method_not_allowed', 'invalid_request', 'internal')
    """
    default = InvalidRequestError if status < 500 else MistbowError
    kinds = (kind for kind in _BY_CODE.values() if kind.status == status)
    return next(kinds, default)(message, hint=hint)
