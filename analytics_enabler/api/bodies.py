"""Bodies of submissions: JSON, or the queries as plain text."""

from typing import Annotated, Any

import msgspec
import pydantic
from fastapi import Depends, Request

from analytics.insight_models import Submission
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.limits import MAX_CHARACTERS
from mistbow.errors import InvalidRequestError, TooLargeError, UnsupportedError

_EXAMPLE = "cpu_now = COMPUTE AVG(cpu.util, 10 SECONDS) EVERY 5 SECONDS"

BODY_DOCUMENTATION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": Submission.model_json_schema(),
                "example": {"queries": _EXAMPLE},
            },
            "text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE},
        },
    }
}
"""The body's description for OpenAPI: FastAPI describes no body that a handler reads itself."""


DEPLOYMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A deployment, as enablers store it.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"id": "d-1f"}}},
    }
}
"""The description of a body with a deployment, which only enablers write."""


def body_example(example: dict[str, Any]) -> dict[str, Any]:
    """Return the addition to a route's description that contains an example of its JSON body."""
    return {"requestBody": {"content": {"application/json": {"example": example}}}}


def read_deployment(body: bytes) -> Deployment:
    """Return the deployment in a body; raises ``InvalidRequestError`` if the body is invalid."""
    try:
        return msgspec.json.decode(body, type=Deployment)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not a valid deployment: {error}") from error


async def read_submission(request: Request) -> Submission:
    """Return the submission in the body of a request.

    Raises ``UnsupportedError`` if the body is neither JSON nor plain text, ``TooLargeError`` if the
    queries are too long, and ``InvalidRequestError`` if the body is invalid or has no queries.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    match content_type:
        case "application/json":
            submission = _from_json(body)
        case "text/plain":
            submission = _from_text(body)
        case _:
            raise UnsupportedError(
                f"the content type is not supported: {content_type or 'missing'}",
                hint="Send application/json or text/plain.",
            )
    if len(submission.queries) > MAX_CHARACTERS:
        raise TooLargeError(
            f"the queries have more than {MAX_CHARACTERS} characters",
            hint="Divide the queries into several deployments.",
        )
    if not submission.queries.strip():
        raise InvalidRequestError(
            "the body contains no queries", hint=f"Send a statement such as: {_EXAMPLE}"
        )
    return submission


ReadSubmission = Annotated[Submission, Depends(read_submission)]


def _from_json(body: bytes) -> Submission:
    try:
        return Submission.model_validate_json(body)
    except pydantic.ValidationError as error:
        problems = [
            {"where": ".".join(str(part) for part in item["loc"]) or "body", "what": item["msg"]}
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise InvalidRequestError(
            f"{problems[0]['where']}: {problems[0]['what']}",
            hint='Send {"queries": "…"}, and a "name" if you like.',
            details=problems,
        ) from None


def _from_text(body: bytes) -> Submission:
    try:
        return Submission.model_construct(queries=body.decode(), name=None)
    except UnicodeDecodeError:
        raise InvalidRequestError(
            "the body is not valid UTF-8", hint="Encode the queries as UTF-8."
        ) from None
