"""The OpenAPI documents of all services: access, errors, descriptions, examples, operation ids."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from mistbow.auth.authentication import OPEN_PATHS
from mistbow.errors import ERRORS, MistbowError
from mistbow.openapi import Service, fields_of, operations_of, possible_errors, routes_of
from tests.test_routes_are_guarded import SERVICES

Operation = tuple[str, str, dict[str, Any]]
IDS = Path(__file__).parent / "openapi"


@pytest.fixture(params=SERVICES)
def name(request: pytest.FixtureRequest) -> str:
    service: str = request.param
    return service


@pytest.fixture
def app(name: str, tmp_path: Path) -> Service:
    created = SERVICES[name](tmp_path)
    assert isinstance(created, Service)
    return created


@pytest.fixture
def document(app: Service) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture
def operations(document: dict[str, Any]) -> list[Operation]:
    return list(operations_of(document))


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema together with the schemas to which it refers."""
    return {**schema, "components": document["components"]}


def test_operation_ids_stay_the_same(name: str, operations: list[Operation]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations]
    assert len(set(ids)) == len(ids)
    # Generated clients name their methods by these ids. Add new ids; do not change others.
    assert sorted(ids) == (IDS / f"{name}.txt").read_text().split()


def test_every_operation_states_its_scope(app: Service, operations: list[Operation]) -> None:
    routes = routes_of(app)
    for path, method, operation in operations:
        rule = routes[path, method].rule
        assert rule is not None
        expected = [] if path in OPEN_PATHS else [{"bearer": [rule.token_scope]}]
        assert operation["security"] == expected, (method, path)


def test_every_parameter_and_field_has_a_description(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    silent = [
        f"{method} {path}: {part}"
        for path, method, operation in operations
        for part in ("summary", "description")
        if not operation.get(part)
    ]
    silent += [
        f"{method} {path}: {parameter['name']}"
        for path, method, operation in operations
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    silent += [
        f"{title}.{field}"
        for title, field, schema in fields_of(document)
        if not schema.get("description")
    ]
    assert not silent, "describe them in the ApiDescription of the service"


def test_every_possible_error_is_declared_with_schema_and_examples(
    app: Service, document: dict[str, Any], operations: list[Operation]
) -> None:
    routes = routes_of(app)
    for path, method, operation in operations:
        errors = possible_errors(path, operation, routes[path, method])
        assert {MistbowError, *routes[path, method].raises} <= set(errors) <= set(ERRORS)
        for error in errors:
            [content] = operation["responses"][str(error.status)]["content"].values()
            assert error.code in content["examples"], (method, path, error)
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["description"]
                for content in response["content"].values():
                    check_examples(document, content)


def test_every_successful_answer_has_a_schema_and_an_example(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    for path, method, operation in operations:
        successes = {s: r for s, r in operation["responses"].items() if int(s) < 400}
        assert successes, (method, path)
        for status, response in successes.items():
            if status != "204":
                for media_type, content in response["content"].items():
                    assert content["schema"], (method, path)
                    binary = content["schema"].get("format") == "binary"
                    assert binary or "example" in content, (method, path, media_type)
                    check_examples(document, content)


def test_every_body_has_a_schema_and_a_valid_example(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    for path, method, operation in operations:
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            assert content.get("schema"), (method, path, media_type)
            binary = content["schema"].get("format") == "binary"
            assert binary or "example" in content, (method, path, media_type)
            check_examples(document, content)


def check_examples(document: dict[str, Any], content: dict[str, Any]) -> None:
    examples = [each["value"] for each in content.get("examples", {}).values()]
    if "example" in content:
        examples.append(content["example"])
    validator = jsonschema_rs.validator_for(resolved(document, content["schema"]))
    for example in examples:
        validator.validate(example)


def test_error_schema_describes_the_body_of_each_class_of_errors(document: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(document["components"]["schemas"]["Error"])
    for kind in ERRORS:
        validator.validate(kind("wrong", hint="Do this.", details={"any": [1]}).body())
