"""Why a query has no answer, in the form of Prometheus' HTTP API."""

from typing import Any, Literal

from mistbow.errors import MistbowError, NotFoundError, TooLargeError

Kind = Literal["bad_data", "execution", "not_found", "timeout", "unavailable"]

_STATUS: dict[Kind, int] = {
    "bad_data": 400,
    "execution": 422,
    "not_found": 404,
    "timeout": 503,
    "unavailable": 503,
}


class PromqlError(Exception):
    """What went wrong; ``kind`` is Prometheus' ``errorType``."""

    def __init__(self, message: str, kind: Kind = "execution") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind

    @property
    def status(self) -> int:
        """The HTTP status that Prometheus answers with."""
        return _STATUS[self.kind]

    def body(self) -> dict[str, Any]:
        """Return the JSON body by which it is told."""
        return {"status": "error", "errorType": self.kind, "error": self.message}


def bad_data(message: str) -> PromqlError:
    """Return the error of a request that cannot be understood."""
    return PromqlError(message, "bad_data")


def unsupported(what: str) -> PromqlError:
    """Return the error of a query that Prometheus would answer, and Mistbow does not."""
    return PromqlError(f"{what} is not supported by Mistbow; docs/promql.md says what is")


def translated(error: MistbowError) -> PromqlError:
    """Return what an error of the storage says, in Prometheus' form."""
    kind: Kind = "bad_data"
    if error.status >= 500:
        kind = "unavailable"
    elif isinstance(error, TooLargeError):
        kind = "execution"
    elif isinstance(error, NotFoundError):
        kind = "not_found"
    return PromqlError(f"{error.message}. {error.hint}" if error.hint else error.message, kind)
