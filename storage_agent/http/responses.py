"""HTTP responses whose bodies are encoded JSON, complete or streamed."""

from collections.abc import Iterator, Mapping

from fastapi import Response
from fastapi.responses import StreamingResponse

Content = bytes | Iterator[bytes]
"""Encoded JSON: complete, or as chunks to stream."""

Answer = Content | Response
"""Encoded JSON, or a response with another media type."""


def json_response(
    content: Answer, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with encoded JSON as its body; a body in chunks is streamed.

    A response is returned unchanged.
    """
    if isinstance(content, Response):
        return content
    if isinstance(content, bytes):
        return Response(content, status, headers, media_type="application/json")
    return StreamingResponse(content, status, headers, media_type="application/json")
