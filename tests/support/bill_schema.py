"""The schemas of CycloneDX, as the package that writes bills has them."""

import json
from importlib.resources import files

import jsonschema_rs


def schema_errors(bill: str) -> list[str]:
    """Return what is wrong with a bill according to the schemas of CycloneDX 1.6."""
    folder = files("cyclonedx.schema._res")
    uri = "http://cyclonedx.org/schema/"
    schemas = {
        name: json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text())
        for name in ("bom-1.6", "spdx", "jsf-0.82")
    }
    registry = jsonschema_rs.Registry(
        [(f"{uri}{name}.SNAPSHOT.schema.json", schemas[name]) for name in ("spdx", "jsf-0.82")]
    )
    validator = jsonschema_rs.validator_for(schemas["bom-1.6"], registry=registry)
    return [
        f"{each.instance_path}: {each.message}" for each in validator.iter_errors(json.loads(bill))
    ]
