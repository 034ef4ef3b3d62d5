"""OpenAPI descriptions of request bodies that FastAPI does not parse."""

from typing import Any

from mistbow.openapi import inline_schema

Operation = dict[str, Any]
"""A part of an OpenAPI operation, which FastAPI merges into its own (``openapi_extra``)."""


def json_body(body: type, example: dict[str, Any] | None = None) -> Operation:
    """Return the part of an OpenAPI operation that describes a JSON body of the type ``body``.

    ``example``: an example of the body.
    """
    content: dict[str, Any] = {"application/json": {"schema": inline_schema(body)}}
    if example is not None:
        content["application/json"]["example"] = example
    return {"requestBody": {"required": True, "content": content}}
