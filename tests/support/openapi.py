"""The comparison of answers with an OpenAPI document."""

import json
from typing import Any

import jsonschema_rs


def check_declared(
    document: dict[str, Any], operation: dict[str, Any], status: int, kind: str, content: bytes
) -> None:
    """Fail unless an operation declares the status, the media type and the body of an answer."""
    declared = operation["responses"].get(str(status))
    assert declared is not None, (status, content[:300])
    if status == 204:
        return
    media_type = kind.partition(";")[0]
    contents = {name.partition(";")[0]: each for name, each in declared["content"].items()}
    assert media_type in contents, (status, kind, content[:300])
    if media_type == "application/json":
        schema = {**contents[media_type]["schema"], "components": document["components"]}
        try:
            jsonschema_rs.validator_for(schema).validate(json.loads(content))
        except jsonschema_rs.ValidationError as error:
            raise AssertionError((status, content[:300])) from error
