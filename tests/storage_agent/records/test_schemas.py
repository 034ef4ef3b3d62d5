"""Schemas of application data: registration, validation, and queries by fields."""

from typing import Any

import httpx
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.errors import InvalidRequestError
from storage_agent.records.field_index import FieldIndex, parse_condition, to_term
from storage_agent.records.schema_cost import check_cost
from storage_agent.settings import AgentSettings
from tests.storage_agent.records.conftest import NOW, Post, item, records_of
from tests.support.agents import running_agent

ROOM = {
    "type": "object",
    "properties": {"floor": {"type": "integer"}, "name": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["floor"],
}


def register(url: str, name: str, schema: Any = ROOM, indexed: Any = ("floor",)) -> httpx.Response:
    return httpx.put(f"{url}/app/schemas/{name}", json={"schema": schema, "indexed": indexed})


def test_schema_survives_restart_until_removed(url: str, records_settings: AgentSettings) -> None:
    assert register(url, "kept").status_code == 201
    assert register(url, "kept", indexed=["name"]).status_code == 200
    description = {"name": "kept", "schema": ROOM, "indexed": ["name"]}
    with running_agent(records_settings) as again:
        assert httpx.get(f"{again}/app/schemas/kept").json() == description
        assert description in httpx.get(f"{again}/app/schemas").json()["schemas"]
        assert httpx.delete(f"{again}/app/schemas/kept").status_code == 204
        assert httpx.get(f"{again}/app/schemas/kept").status_code == 404
        assert httpx.delete(f"{again}/app/schemas/kept").status_code == 404


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"type": "nope"}, "nope"),
        ({"$ref": "http://127.0.0.1:9/x"}, "127.0.0.1"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"pattern": "("}, "regex"),
        ({"pattern": "(?=a)b"}, "regex"),
        ({"$schema": "http://else.where/schema"}, "else.where"),
        (5, "5"),
    ],
    ids=str,
)
def test_invalid_schema_is_rejected(url: str, schema: Any, what: str) -> None:
    response = register(url, "bad", schema)
    assert response.status_code == 400, response.text
    assert what in response.json()["error"]["message"]
    assert httpx.get(f"{url}/app/schemas/bad").status_code == 404


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (b'{"not":' * 65 + b"true" + b"}" * 65, "schema: the value is nested more"),
        (b'{"title":"\xff"}', "schema: the text is not valid UTF-8"),
    ],
    ids=["deep", "UTF-8"],
)
def test_unreadable_schema_is_rejected(url: str, schema: bytes, what: str) -> None:
    response = httpx.put(f"{url}/app/schemas/bad", content=b'{"schema":%b}' % schema)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"].startswith(what)


def doubling(count: int) -> dict[str, Any]:
    """Return a schema whose references apply its first definition 2**count times."""
    definitions: dict[str, Any] = {"0": {"type": "object"}}
    for number in range(count):
        both = [{"$ref": f"#/$defs/{number}"}] * 2
        definitions[str(number + 1)] = {"allOf": both}
    return {"$defs": definitions, "$ref": f"#/$defs/{count}"}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        {"properties": {"a": {"allOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}}},
        {"items": {"anyOf": [{"$ref": "#"}] * 3}},
        {"$id": "urn:x", "patternProperties": {"a": {"$ref": "urn:x"}, "b": {"$ref": "#"}}},
        {"$anchor": "all", "items": {"oneOf": [{"$ref": "#all"}, {"$dynamicRef": "#all"}]}},
    ],
    ids=["definitions", "field", "items", "id", "anchor"],
)
def test_schema_that_applies_a_definition_too_often_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="more than 100000 of its parts"):
        check_cost(schema, 32)


@pytest.mark.parametrize(
    "schema",
    [
        doubling(10),
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {name: {"$ref": "#"} for name in "abcdefgh"}, "items": {"$ref": "#"}},
        {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}},
        {"oneOf": [{"properties": {"kind": {"const": n}, "x": {}}} for n in range(500)]},
        True,
    ],
    ids=["few", "circle", "circles", "tree", "map", "kinds", "true"],
)
def test_schema_of_bounded_cost_is_accepted(schema: Any) -> None:
    check_cost(schema, 32)


def test_expensive_schema_and_long_chain_of_references_are_rejected(url: str) -> None:
    refused = register(url, "bad", doubling(40))
    assert refused.status_code == 400
    assert "more than 100000 of its parts" in refused.json()["error"]["message"]
    chain = {str(n + 1): {"$ref": f"#/$defs/{n}"} for n in range(1500)}
    refused = register(url, "bad", {"$defs": {"0": {}, **chain}, "$ref": "#/$defs/1500"})
    assert refused.status_code == 400
    assert "chain" in refused.json()["error"]["message"]


def test_record_with_many_problems_is_rejected_by_the_first(url: str) -> None:
    """All problems of such a record, each with the 5,000 values, once took 22 GB."""
    register(url, "kinds", {"items": {"enum": [f"v{n}" for n in range(5000)]}}, indexed=())
    items = [item("r1", ["v1", *["z"] * 2000], schema="kinds")]
    process = psutil.Process()  # the agent runs in a thread of the test
    before = process.memory_info().rss
    response = httpx.post(f"{url}/app/put", json={"application": items})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("application[0].val[1]: ")
    assert process.memory_info().rss - before < 50 * 2**20


def test_record_invalid_against_its_schema_is_rejected(url: str, post: Post) -> None:
    register(url, "room")
    items = [item("r1", {"floor": 1}, schema="room"), item("r2", {"floor": 1.5}, schema="room")]
    response = httpx.post(f"{url}/app/put", json={"application": items})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("application[1].val.floor: 1.5 is not")
    assert records_of(post("/app/get", {"key": ["r1"]})) == {}


def test_records_are_found_by_fields(url: str, post: Post) -> None:
    register(url, "flat")
    rooms = [("q1", 1, "a"), ("q2", 2, "b"), ("q3", 3, "b"), ("q4", 2, "c")]
    put = [item(key, {"floor": floor, "name": name}, schema="flat") for key, floor, name in rooms]
    post("/app/put", {"application": [*put, item("q5", {"floor": 2})]})

    def found(where: object, **more: object) -> list[str]:
        return list(records_of(post("/app/query", {"schema": "flat", "where": where, **more})))

    assert found({}) == ["q1", "q2", "q3", "q4"]
    assert found({"floor": 2}) == ["q2", "q4"]
    assert found({"floor": {"gte": 2}, "name": "b"}) == ["q2", "q3"]
    assert found({"name": {"gte": "b", "lte": "b"}}, limit=1) == ["q2"]
    assert found({"floor": {"lte": 1}}, **{"from": NOW + 1}) == []
    assert found({"floor": "2"}) == found({"floor": True}) == found({"door": None}) == []
    # The index follows what is put.
    post("/app/put", {"application": [item("q2", {"floor": 9}, schema="flat", ts=NOW + 1)]})
    assert found({"floor": 2}) == ["q4"]
    assert found({"floor": {"gte": 9}}) == ["q2"]
    # And what another schema makes of it.
    register(url, "flat", indexed=["name"])
    assert found({"floor": {"gte": 2}, "name": "b"}) == ["q3"]
    for where in ({"floor": []}, {"floor": {}}, {"floor": {"gt": 1}}, {"floor": {"gte": None}}):
        body = {"schema": "flat", "where": where}
        assert httpx.post(f"{url}/app/query", json=body).status_code == 400, where
    mixed = {"schema": "flat", "where": {"floor": {"gte": 1, "lte": "x"}}}
    assert httpx.post(f"{url}/app/query", json=mixed).status_code == 400
    assert httpx.post(f"{url}/app/query", json={"schema": "none"}).status_code == 404


_VALUES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab", max_size=2)
)
_WANTED = _VALUES | st.fixed_dictionaries(
    {}, optional={"gte": st.integers(-3, 3), "lte": st.floats(-3, 3)}
).filter(bool)


@given(st.lists(st.tuples(st.sampled_from("klmn"), _VALUES)), _WANTED)
def test_index_finds_the_same_keys_as_a_scan(changes: list[tuple[str, Any]], wanted: Any) -> None:
    index, now = FieldIndex(), {}
    for key, value in changes:
        index.set(key, to_term(value))
        now[key] = value
    condition = parse_condition("f", wanted)
    assert sorted(key for _, key in index.find(condition)) == sorted(
        k for k, v in now.items() if condition.matches(to_term(v))
    )
