"""The forms of errors: Mistbow's own, and those that clients of other protocols expect."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mistbow.errors import MistbowError, from_body

ErrorForm = Callable[[MistbowError, int], tuple[bytes, str]]
"""Takes an error and the status of its answer; returns (body, media type)."""

_JSON = "application/json"


def own_form(error: MistbowError, status: int) -> tuple[bytes, str]:  # noqa: ARG001
    """Return the body of an error in Mistbow's form, and its media type."""
    return json_form(error.body())


def json_form(body: Any) -> tuple[bytes, str]:
    """Return the body of an error as JSON, and its media type."""
    # In ASCII: an error may quote text that is no valid UTF-8.
    return json.dumps(body).encode(), _JSON


@dataclass(frozen=True, slots=True)
class ErrorForms:
    """The forms of errors by path, of the protocols that have their own.

    ``by_path``: path -> form; a path that ends in ``/`` stands for all paths that begin with it,
    unless such a path is named itself.
    """

    by_path: Mapping[str, ErrorForm]

    def find(self, path: str) -> ErrorForm | None:
        """Return the form of errors at a path; None: Mistbow's own form.

        >>> forms = ErrorForms({"/api/v1/": own_form, "/api/v1/write": json_form})
        >>> forms.find("/api/v1/write") is json_form, forms.find("/api/v1/query") is own_form
        (True, True)
        >>> forms.find("/api/v1")
        """
        if path in self.by_path:
            return self.by_path[path]
        found = [p for p in self.by_path if p.endswith("/") and path.startswith(p)]
        return self.by_path[max(found, key=len)] if found else None


class ForeignErrors:
    """Middleware that converts the errors of all inner layers to the form of their path.

    Only bodies in Mistbow's form are converted; a handler may answer in the path's form itself.
    """

    def __init__(self, app: ASGIApp, forms: ErrorForms) -> None:
        self._app = app
        self._forms = forms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = self._forms.find(scope["path"]) if scope["type"] == "http" else None
        sender = send if form is None else _Conversion(send, form).send
        await self._app(scope, receive, sender)


class _Conversion:
    """Converts the messages of one answer, if the answer is an error."""

    def __init__(self, send: Send, form: ErrorForm) -> None:
        self._send = send
        self._form = form
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        """Send a message, or retain it until the body of the error is complete."""
        if message["type"] == "http.response.start" and _is_json_error(message):
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_error(self._start)

    async def _send_error(self, start: Message) -> None:
        content, kind = self._body, None
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            status = start["status"]
            content, kind = self._form(from_body(status, body), status)
        headers = [
            (name, value) for name, value in start["headers"] if name.lower() != b"content-length"
        ]
        if kind is not None:
            headers = [each for each in headers if each[0].lower() != b"content-type"]
            headers.append((b"content-type", kind.encode()))
        headers.append((b"content-length", b"%d" % len(content)))
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})


def _is_json_error(message: Message) -> bool:
    return message["status"] >= 400 and any(
        name.lower() == b"content-type" and value.startswith(_JSON.encode())
        for name, value in message["headers"]
    )
