"""The forms of errors that clients of Prometheus and Influx expect."""

from mistbow.errors import MistbowError
from mistbow.http.error_forms import ErrorForms, json_form
from storage_agent.promql.errors import to_promql_error

_INFLUX_CODES = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    405: "method not allowed",
    409: "conflict",
    413: "request too large",
    415: "unsupported media type",
    429: "too many requests",
    500: "internal error",
}


def _promql(error: MistbowError, status: int) -> tuple[bytes, str]:  # noqa: ARG001
    """Return ``{"status", "errorType", "error"}``, as Prometheus does."""
    return json_form(to_promql_error(error).body())


def _influx(error: MistbowError, status: int) -> tuple[bytes, str]:
    """Return ``{"code", "message", "error"}``: the fields of Influx 2, and of Influx 1."""
    default = "invalid" if status < 500 else "unavailable"
    message = error.text
    code = _INFLUX_CODES.get(status, default)
    return json_form({"code": code, "message": message, "error": message})


def _remote_write(error: MistbowError, status: int) -> tuple[bytes, str]:  # noqa: ARG001
    """Return plain text; Prometheus logs its first line.

    Each further line has the place, the series and the problem of a rejected point.
    """
    rejected = error.details if isinstance(error.details, list) else []
    lines = [error.text]
    lines += [
        f"{each['where']} ({each['series']}): {each['what']}"
        for each in rejected
        if isinstance(each, dict) and each.keys() >= {"where", "series", "what"}
    ]
    text = "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"
    return text.encode(errors="backslashreplace"), "text/plain; charset=utf-8"


ERROR_FORMS = ErrorForms(
    {
        "/api/v1/": _promql,
        "/api/v1/write": _remote_write,
        "/api/v2/": _influx,
        "/write": _influx,
        "/ping": _influx,
    }
)
