"""The errors that Prometheus' HTTP API reports."""

from typing import Any, Literal

from mistbow.errors import MistbowError, NotFoundError, TooLargeError

Kind = Literal["bad_data", "execution", "internal", "not_found", "timeout", "unavailable"]

_STATUS: dict[Kind, int] = {
    "bad_data": 400,
    "execution": 422,
    "internal": 500,
    "not_found": 404,
    "timeout": 503,
    "unavailable": 503,
}


class PromqlError(Exception):
    """The failure of a request; ``kind``: the value of ``errorType`` in Prometheus' answer."""

    def __init__(self, message: str, kind: Kind = "execution") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind

    @property
    def status(self) -> int:
        """The HTTP status that Prometheus sends for this kind of error."""
        return _STATUS[self.kind]

    def body(self) -> dict[str, Any]:
        """Return the JSON object that the answer contains."""
        return {"status": "error", "errorType": self.kind, "error": self.message}


def bad_data(message: str) -> PromqlError:
    """Return the error for an invalid request."""
    return PromqlError(message, "bad_data")


def unsupported(feature: str) -> PromqlError:
    """Return the error for a feature that Prometheus supports and Mistbow does not support."""
    return PromqlError(
        f"{feature} is not supported by Mistbow; docs/promql.md lists the supported features"
    )


def to_promql_error(error: MistbowError) -> PromqlError:
    """Convert an error of the agent to a ``PromqlError``."""
    kind: Kind = "bad_data"
    if error.status == 500:
        kind = "internal"
    elif error.status > 500:
        kind = "unavailable"
    elif isinstance(error, TooLargeError):
        kind = "execution"
    elif isinstance(error, NotFoundError):
        kind = "not_found"
    return PromqlError(error.text, kind)
