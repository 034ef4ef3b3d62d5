"""The software bill of materials of an image."""

import doctest
import json

from deploy import sbom
from tests.support.bill_schema import schema_errors

FOUND = sbom.Inventory(
    interpreter="3.12.11",
    python=[
        ("pip", "25.0.1", "MIT"),
        ("pip", "25.0.1", "MIT"),  # of the base, and of the venv
        ("httpx", "0.28.1", "BSD-3-Clause"),
        ("Typing_Extensions", "4.15.0", ""),
        ("antlr4-python3-runtime", "4.13.2", "BSD"),
        ("six", "1.17.0", "The MIT License. " * 40),
    ],
    debian=[("libssl3", "3.0.17-1~deb12u2", "amd64")],
    javascript=[("@codemirror/state", "6.7.6", "MIT"), ("uplot", "1.6.32", "MIT")],
    jars=[("/opt/mistbow/jars/ignite-core-2.17.0.jar", "ab" * 32)],
)


def test_bill_satisfies_the_schema_and_names_all_parts() -> None:
    assert doctest.testmod(sbom).failed == 0
    text = sbom.bill("registry:5000/mistbow:1", FOUND)
    assert schema_errors(text) == []
    bill = json.loads(text)
    assert bill["metadata"]["component"]["name"] == "registry:5000/mistbow:1"
    parts = {each["name"]: each for each in bill["components"]}
    assert {name: each.get("purl") for name, each in parts.items()} == {
        "python": "pkg:generic/python@3.12.11",
        "pip": "pkg:pypi/pip@25.0.1",
        "httpx": "pkg:pypi/httpx@0.28.1",
        "Typing_Extensions": "pkg:pypi/typing-extensions@4.15.0",
        "antlr4-python3-runtime": "pkg:pypi/antlr4-python3-runtime@4.13.2",
        "six": "pkg:pypi/six@1.17.0",
        "@codemirror/state": "pkg:npm/%40codemirror/state@6.7.6",
        "uplot": "pkg:npm/uplot@1.6.32",
        "libssl3": "pkg:deb/debian/libssl3@3.0.17-1~deb12u2?arch=amd64",
        "ignite-core": None,
    }
    assert len(parts) == len(bill["components"])
    assert parts["python"]["cpe"] == "cpe:2.3:a:python:python:3.12.11:*:*:*:*:*:*:*"
    assert parts["httpx"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert "licenses" not in parts["six"]
    assert parts["ignite-core"]["version"] == "2.17.0"
    assert parts["ignite-core"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]


def test_schema_refuses_a_bill_without_a_name_of_a_part() -> None:
    bill = json.loads(sbom.bill("mistbow", FOUND))
    del bill["components"][0]["name"]
    assert schema_errors(json.dumps(bill))
