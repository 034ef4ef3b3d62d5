"""Every error that Mistbow raises on purpose, on one page.

A service answers each of them with its ``status`` and a body of
``{"error": {"code", "message", "hint", "details"}}``; the client raises the same class again.
"""

from typing import Any, ClassVar


class MistbowError(Exception):
    """What went wrong (``message``), how to mend it (``hint``) and where (``details``)."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def body(self) -> dict[str, Any]:
        """Return the JSON body by which a service reports this error."""
        error = {"code": self.code, "message": self.message}
        if self.hint is not None:
            error["hint"] = self.hint
        if self.details is not None:
            error["details"] = self.details
        return {"error": error}


class InvalidRequestError(MistbowError):
    """The request cannot be understood or breaks a stated rule."""

    code = "invalid_request"
    status = 400


class InvalidQueryError(MistbowError):
    """An insight query has problems; ``details`` lists them with line, column and hint."""

    code = "invalid_query"
    status = 400


class UnauthorizedError(MistbowError):
    """No token, or one that is not known."""

    code = "unauthorized"
    status = 401


class ForbiddenError(MistbowError):
    """The token is known, and does not open this: its scopes or its entity prefix."""

    code = "forbidden"
    status = 403


class NotFoundError(MistbowError):
    """The thing named does not exist."""

    code = "not_found"
    status = 404


class SlowRequestError(MistbowError):
    """The body did not come within the time that there is for it."""

    code = "slow_request"
    status = 408


class ConflictError(MistbowError):
    """The request contradicts what is stored."""

    code = "conflict"
    status = 409


class FencedError(MistbowError):
    """A writer of an older epoch tried to append; a newer one owns the stream."""

    code = "fenced"
    status = 409


class TooLargeError(MistbowError):
    """The body, or the number of its points, is over the limit."""

    code = "too_large"
    status = 413


class UnsupportedError(MistbowError):
    """The body is of a type, or packed in a way, that is not taken here."""

    code = "unsupported"
    status = 415


class TooManyRequestsError(MistbowError):
    """More requests at once than the service takes; trying again later may succeed."""

    code = "too_many_requests"
    status = 429


class UnavailableError(MistbowError):
    """A part that this request needs is away; trying again later may succeed."""

    code = "unavailable"
    status = 503


class LostDataError(UnavailableError):
    """Ignite lost acknowledged rows of this stream, which is refused until it is repaired."""

    code = "lost_data"


class StorageFullError(MistbowError):
    """The streams take as much room as they may, and nothing may be evicted."""

    code = "storage_full"
    status = 507


_BY_CODE: dict[str, type[MistbowError]] = {
    cls.code: cls
    for cls in (
        MistbowError,
        InvalidRequestError,
        InvalidQueryError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        SlowRequestError,
        ConflictError,
        FencedError,
        TooLargeError,
        UnsupportedError,
        TooManyRequestsError,
        UnavailableError,
        LostDataError,
        StorageFullError,
    )
}


def from_body(status: int, body: Any) -> MistbowError:
    """Rebuild the error that a service reported; an unknown body becomes a plain error.

    That of Prometheus' API is known by its words only.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        kind = UnavailableError if status in (502, 503, 504) else MistbowError
        said = error if isinstance(error, str) else f"the service answered {status}"
        return kind(said, details=body)
    kind = _BY_CODE.get(str(error.get("code")), MistbowError)
    return kind(str(error.get("message", "")), hint=error.get("hint"), details=error.get("details"))
