"""Completes the OpenAPI document of a service: errors, security, descriptions, operation ids.

FastAPI writes the document from the routes. This module adds the common parts of all routes,
derived from the access rules and from the classes of ``mistbow.errors``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from mistbow.auth.authentication import OPEN_PATHS
from mistbow.auth.rules import AccessRule, rule_of
from mistbow.errors import (
    ERRORS,
    ForbiddenError,
    HeadTooLargeError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    SlowRequestError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
)
from mistbow.http.error_forms import ErrorForm, ErrorForms

F = TypeVar("F", bound=Callable[..., Any])
Document = dict[str, Any]

_RAISES = "__mistbow_errors__"
_METHODS = ("get", "put", "post", "delete", "patch", "head")
_SCHEMA = {"$ref": "#/components/schemas/Error"}
_OF_BODIES = (SlowRequestError, TooLargeError, UnsupportedError)
_OF_ALL = (MistbowError, HeadTooLargeError, TooManyRequestsError, UnavailableError)
_OF_TOKENS = (UnauthorizedError, ForbiddenError)

_HINT = "Send it again later."
_ERROR: Document = {
    "type": "object",
    "title": "Error",
    "description": "An error. Clients of RAINBOW's storage read the fields result and message.",
    "required": ["error", "result", "message"],
    "properties": {
        "error": {
            "type": "object",
            "description": "The error: what is wrong, and how to correct the request.",
            "required": ["code", "message"],
            "properties": {
                "code": {
                    "type": "string",
                    "description": "The kind of the error, which does not change.",
                    "enum": sorted({each.code for each in ERRORS}),
                },
                "message": {"type": "string", "description": "The problem, for people."},
                "hint": {"type": "string", "description": "How to correct the request."},
                "details": {"description": "Further data about the error, such as a position."},
            },
        },
        "result": {"type": "string", "const": "ERROR", "description": "Always ERROR."},
        "message": {"type": "string", "description": "The message of the error again."},
    },
}
_BEARER: Document = {
    "type": "http",
    "scheme": "bearer",
    "description": (
        "A token of the fog, which a service needs if MISTBOW_TOKEN is set. The roles of an "
        "operation are the scope that the token must have. Collectors may send the scheme Token "
        "in place of Bearer."
    ),
}


@dataclass(frozen=True, slots=True)
class AnswerDescription:
    """The successful answer of an operation.

    ``content``: media type -> schema and example. ``statuses``: the possible statuses.
    """

    content: Mapping[str, Document]
    statuses: tuple[int, ...] = (200,)


_TEXTS: Document = {"type": "array", "items": {"type": "string"}}


def _example(example: Any, **properties: Document) -> AnswerDescription:
    schema = {"type": "object", "title": "State", "properties": properties}
    return AnswerDescription({"application/json": {"schema": schema, "example": example}})


@dataclass(frozen=True, slots=True)
class ApiDescription:
    """The additions of a service to its OpenAPI document.

    ``fields``: descriptions of parameters and fields: name, or title of the schema and name (as
    ``Point.name``) -> description. ``answers``: operation id -> successful answer.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, AnswerDescription] = field(default_factory=dict)


_OPERATIONS = ApiDescription(
    {
        "status": "ok; of readiness: ready, or waiting.",
        "waiting_for": "The reason why the service is not ready, for people.",
        "warnings": "Problems that an operator should solve.",
        "details": "Further data about the error.",
    },
    {
        "get_healthz": _example({"status": "ok"}, status={"type": "string"}),
        "get_readyz": _example(
            {"status": "ready", "waiting_for": []},
            status={"type": "string"},
            waiting_for=_TEXTS,
            warnings=_TEXTS,
        ),
        "get_metrics": AnswerDescription(
            {"text/plain": {"schema": {"type": "string"}, "example": "process_cpu_seconds 1.0\n"}}
        ),
    },
)
"""The description of the routes of every service."""


class Service(FastAPI):
    """A FastAPI application with a completed OpenAPI document."""

    api_description = ApiDescription()
    error_forms = ErrorForms({})

    def openapi(self) -> Document:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            complete(document, routes_of(self), self.api_description, self.error_forms)
        return self.openapi_schema or {}


@dataclass(frozen=True, slots=True)
class DocumentedRoute:
    """The properties of a route that its OpenAPI operation states.

    ``rule``: None: the route rejects all requests. ``raises``: the errors that ``raises`` declares.
    """

    rule: AccessRule | None
    raises: tuple[type[MistbowError], ...]


def raises(*errors: type[MistbowError]) -> Callable[[F], F]:
    """Return a decorator that declares errors of a route, beyond the errors of all routes."""

    def mark(function: F) -> F:
        setattr(function, _RAISES, errors)
        return function

    return mark


def routes_of(app: FastAPI) -> dict[tuple[str, str], DocumentedRoute]:
    """Return (path, method in lower case) -> route."""
    found = {}
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        declared = getattr(getattr(route, "endpoint", None), _RAISES, ())
        for method in context.methods or ():
            key = (context.path_format or "", method.lower())
            found[key] = DocumentedRoute(rule_of(route), declared)
    return found


def complete(
    document: Document,
    routes: Mapping[tuple[str, str], DocumentedRoute],
    description: ApiDescription,
    forms: ErrorForms,
) -> None:
    """Add answers, errors, security, descriptions and operation ids to a document of FastAPI."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)
    schemas["Error"] = _ERROR
    components["securitySchemes"] = {"bearer": _BEARER}
    for path, method, operation in operations_of(document):
        route = routes[path, method]
        operation["operationId"] = operation_id(path, method)
        _secure(operation, path, route.rule)
        answers = {**_OPERATIONS.answers, **description.answers}
        _add_answer(operation, answers.get(operation["operationId"]))
        _add_errors(operation, possible_errors(path, operation, route), forms.find(path))
    _describe(document, {**_OPERATIONS.fields, **description.fields})


def operations_of(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Yield (path, method, operation) of a document."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]


def operation_id(path: str, method: str) -> str:
    """Return the id of an operation, which depends on nothing but its path and method.

    >>> operation_id("/streams/{name}/info", "get"), operation_id("/put", "post")
    ('get_streams_name_info', 'post_put')
    """
    return "_".join([method, *re.findall(r"\w+", path)])


def possible_errors(
    path: str, operation: Document, route: DocumentedRoute
) -> list[type[MistbowError]]:
    """Return the errors that a route can answer, without duplicates."""
    parameters = {each["name"] for each in operation.get("parameters", ())}
    found: list[type[MistbowError]] = [*_OF_ALL, *route.raises]
    if path not in OPEN_PATHS:
        found += _OF_TOKENS
    if parameters or "requestBody" in operation:
        found.append(InvalidRequestError)
    if "requestBody" in operation:
        found += _OF_BODIES
    if "site" in parameters:
        found.append(NotFoundError)
    return list(dict.fromkeys(found))


def inline_schema(body: type) -> dict[str, Any]:
    """Return the JSON schema of a type, in which each reference is replaced by its definition."""
    schema = msgspec.json.schema(body)
    definitions = schema.pop("$defs", {})

    def inline(part: Any) -> Any:
        if isinstance(part, list):
            return [inline(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inline(definitions[part["$ref"].rpartition("/")[2]])
        return {name: inline(item) for name, item in part.items()}

    resolved: dict[str, Any] = inline(schema)
    return resolved


def _secure(operation: Document, path: str, rule: AccessRule | None) -> None:
    if path in OPEN_PATHS or rule is None:
        operation["security"] = []
        return
    scope = rule.token_scope
    operation["security"] = [{"bearer": [scope]}]
    text = f"Requires a token with the scope `{scope}`."
    if rule.services_only:
        text = f"For services of the fog with the scope `{rule.scope}`; of tokens, the fog's only."
    elif scope != rule.scope:
        text += f" Services need the scope `{rule.scope}`."
    if not rule.by_entity:
        text += " Tokens that are limited to some entities are rejected."
    operation["description"] = "\n\n".join(filter(None, (operation.get("description"), text)))


def _add_answer(operation: Document, answer: AnswerDescription | None) -> None:
    if answer is not None:
        for status in answer.statuses:
            described = operation["responses"].setdefault(str(status), {"description": "Success"})
            described["content"] = dict(answer.content)


def _add_errors(
    operation: Document, errors: Sequence[type[MistbowError]], form: ErrorForm | None
) -> None:
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        # Answered by the status 400; a route may declare a 422 of its own.
        invalid = responses.pop("422")
        if invalid["description"] != "Validation Error":
            responses["422"] = {"description": invalid["description"]}
    for status in sorted({each.status for each in errors}):
        kinds = [each for each in errors if each.status == status]
        answer = responses.setdefault(str(status), {})
        texts = [_first_sentence(kind) for kind in kinds]
        answer["description"] = " ".join(filter(None, (answer.get("description"), *texts)))
        examples = {kind.code: kind(_first_sentence(kind), hint=_HINT) for kind in kinds}
        _add_content(answer, examples, form, status)
    for status, answer in responses.items():
        if int(status) >= 400 and "content" not in answer:
            example = MistbowError(answer["description"])
            _add_content(answer, {"error": example}, form, int(status))


def _add_content(
    answer: Document, examples: Mapping[str, MistbowError], form: ErrorForm | None, status: int
) -> None:
    """Add the schema of errors and an example of each error to the description of an answer.

    ``form``: the form of errors in the protocol of the path; None: Mistbow's own form.
    """
    if form is None:
        media_type, schema = "application/json", _SCHEMA
        values: dict[str, Any] = {name: error.body() for name, error in examples.items()}
    else:
        bodies = {name: form(error, status) for name, error in examples.items()}
        media_type = next(iter(bodies.values()))[1].partition(";")[0]
        values = {name: _decode(content, media_type) for name, (content, _) in bodies.items()}
        schema = _schema_of(next(iter(values.values())))
    content = answer.setdefault("content", {}).setdefault(media_type, {})
    given = content.get("schema")
    content["schema"] = {"anyOf": [given, schema]} if given else schema
    content["examples"] = {name: {"value": value} for name, value in values.items()}


def _decode(content: bytes, media_type: str) -> Any:
    return json.loads(content) if media_type == "application/json" else content.decode()


def _schema_of(example: Any) -> Document:
    """Return the schema of an error of another protocol: texts, or a text."""
    if isinstance(example, str):
        return {"type": "string"}
    properties = {name: {"type": "string"} for name in example}
    return {
        "type": "object",
        "title": "ForeignError",
        "required": list(example),
        "properties": properties,
    }


def _first_sentence(kind: type[MistbowError]) -> str:
    if kind is MistbowError:
        return "The service failed; its log has the cause."
    return (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")


def _describe(document: Document, texts: Mapping[str, str]) -> None:
    """Add the missing descriptions of parameters and of fields."""
    for _, _, operation in operations_of(document):
        for parameter in operation.get("parameters", ()):
            _add_description(parameter, parameter["name"], "", texts)
    for title, name, schema in fields_of(document):
        _add_description(schema, name, title, texts)


def _add_description(part: Document, name: str, title: str, texts: Mapping[str, str]) -> None:
    if "description" not in part:
        text = texts.get(f"{title}.{name}", texts.get(name))
        if text is not None:
            part["description"] = text


def fields_of(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Yield (title of the object, name, schema) of each field in the schemas of a document."""
    seen: set[int] = set()
    waiting: list[Any] = [document["paths"], document.get("components", {}).get("schemas", {})]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        properties = part.get("properties")
        if part.get("type") == "object" and isinstance(properties, dict):
            for name, schema in properties.items():
                yield part.get("title", ""), name, schema
        waiting += [item for name, item in part.items() if name not in ("example", "examples")]
