"""Reading what is submitted: JSON, or the queries themselves as plain text."""

from typing import Annotated, Any

import pydantic
from fastapi import Depends, Request

from analytics_enabler.limits import MOST_CHARACTERS
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.insights import Submission

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
"""What FastAPI cannot see in a handler that reads its body itself."""


async def read_submission(request: Request) -> Submission:
    """Return what the body submits; raises an error that says what is wrong with it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    match content_type:
        case "application/json":
            submission = _from_json(body)
        case "text/plain":
            submission = _from_text(body)
        case _:
            raise InvalidRequestError(
                f"the content type is {content_type or 'missing'}",
                hint="Send application/json or text/plain.",
            )
    if len(submission.queries) > MOST_CHARACTERS:
        raise TooLargeError(
            f"the queries are over {MOST_CHARACTERS} characters",
            hint="Submit them in several deployments.",
        )
    if not submission.queries.strip():
        raise InvalidRequestError(
            "there are no queries", hint=f"Send a statement such as: {_EXAMPLE}"
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
        raise InvalidRequestError("the text is not UTF-8", hint="Send it as UTF-8.") from None
