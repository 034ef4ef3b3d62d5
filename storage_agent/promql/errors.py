"""The errors that Prometheus' HTTP API reports."""

from typing import Any, Literal

from mistbow.errors import MistbowError, TooLargeError, bounded

_OwnKind = Literal["unauthorized", "forbidden", "method_not_allowed", "too_many_requests"]
"""The kinds of errors that Prometheus does not answer, or answers in plain text."""

Kind = (
    Literal["bad_data", "execution", "internal", "not_found", "timeout", "unavailable"] | _OwnKind
)

_STATUS: dict[Kind, int] = {
    "bad_data": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "method_not_allowed": 405,
    "too_many_requests": 429,
    "execution": 422,
    "internal": 500,
    "not_found": 404,
    "timeout": 503,
    "unavailable": 503,
}


class PromqlError(Exception):
    """The failure of a request; ``kind``: the value of ``errorType`` in Prometheus' answer."""

    def __init__(self, message: str, kind: Kind = "execution") -> None:
        self.message = bounded(message)
        super().__init__(self.message)
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
    elif error.status != _STATUS[kind]:
        kind = next((each for each, status in _STATUS.items() if status == error.status), kind)
    return PromqlError(error.text, kind)
