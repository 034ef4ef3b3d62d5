"""POST /sql: answers, and rejected queries."""

import base64
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from mistbow.client.agent import AgentClient
from tests.storage_agent.sql.conftest import NOW, TOKEN
from tests.support.conditions import eventually

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


def ask(agent: AgentClient, query: str, *parameters: object, **more: object) -> httpx.Response:
    body = {"query": query, "parameters": parameters, **more}
    return httpx.post(f"{agent.url}/sql", json=body, headers=AUTHORIZED, timeout=60)


def rows(agent: AgentClient, query: str, *parameters: object) -> list[list[Any]]:
    answer = ask(agent, query, *parameters)
    assert answer.status_code == 200, answer.text
    found: list[list[Any]] = answer.json()["rows"]
    return found


def refusal(agent: AgentClient, query: str, status: int = 400) -> dict[str, Any]:
    answer = ask(agent, query)
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["message"]
    return error


def test_past_points_with_filters(agent: AgentClient) -> None:
    begin = NOW - 10_000
    found = rows(
        agent,
        "SELECT entity, ts, value FROM historical "
        "WHERE metric = 'cpu' AND ts BETWEEN $1 AND $1 + 1000 AND entity IN ('a', 'c\"''é') "
        "ORDER BY ts, entity",
        begin,
    )
    assert found == [
        ["a", begin, 0.0],
        ["c\"'é", begin, 0.0],
        ["a", begin + 1000, 1.0],
        ["c\"'é", begin + 1000, 1.0],
    ]
    # The filter may use columns that are not selected.
    assert rows(agent, "SELECT count(*) FROM historical WHERE entity LIKE 'c%'") == [[20]]
    assert rows(agent, "SELECT max(value) FROM historical WHERE ts > ?", NOW) == [[99.0]]
    assert rows(agent, "SELECT value FROM historical WHERE metric = 'none'") == []


def test_latest_values_and_metadata(agent: AgentClient) -> None:
    found = rows(agent, "SELECT entity, ts, value, units FROM latest WHERE metric = 'cpu'")
    assert ["a", NOW + 10**9, 99.0, "s"] in found
    assert ["b", NOW - 1000, 9.0, "s"] in found
    assert rows(agent, "SELECT count(*), count(DISTINCT entity) FROM metadata") == [[6, 3]]


def test_table_can_be_named_twice(agent: AgentClient) -> None:
    assert rows(agent, "SELECT count(*) FROM raw a JOIN raw b USING (ts)") == [[360]]
    twice = "WITH x AS (SELECT * FROM historical WHERE ts < ?) SELECT count(*) FROM x a, x b"
    assert rows(agent, twice, NOW) == [[3600]]


def test_streams_by_their_names(agent: AgentClient) -> None:
    assert rows(agent, 'SELECT * FROM "results/all.fair" WHERE ts >= 2') == [[2, None], [3, "z"]]
    names = rows(agent, "SELECT column_name FROM (DESCRIBE raw)")
    assert ["horizon"] in names


def test_an_arrow_answer(agent: AgentClient) -> None:
    answer = ask(agent, 'SELECT * FROM "results/all.fair"', format="arrow")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == {"ts": [1, 2, 3], "word": ["x", None, "z"]}


def test_values_without_json_type_are_encoded(agent: AgentClient) -> None:
    answer = ask(
        agent,
        "SELECT 9007199254740993 AS a, 'nan'::DOUBLE AS b, '-inf'::FLOAT AS c, 1.50 AS d, "
        "'\\x00z'::BLOB AS e, TIMESTAMP '2026-01-01 00:00:00.5' AS f, sum(1) AS g, "
        "(2::HUGEINT ** 100)::HUGEINT AS h, [1, NULL] AS i, {'x': DATE '2026-01-02'} AS j, "
        "MAP {1: 'one'} AS k, ? AS l, TIMESTAMPTZ '2026-01-01 00:00:00+02' AS m, "
        "TIMESTAMP '290000-01-01' AS n, 18446744073709551615::UBIGINT AS o",
        2**53,
    )
    assert answer.status_code == 200, answer.text
    [values] = answer.json()["rows"]
    names = [column["name"] for column in answer.json()["columns"]]
    assert dict(zip(names, values, strict=True)) == {
        "a": "9007199254740993",
        "b": "NaN",
        "c": "-Inf",
        "d": "1.50",
        "e": base64.b64encode(b"\x00z").decode(),
        "f": "2026-01-01T00:00:00.500000",
        "g": 1,
        "h": str(2**100),
        "i": [1, None],
        "j": {"x": "2026-01-02"},
        "k": {"1": "one"},
        "l": 2**53,
        "m": "2025-12-31T22:00:00Z",
        "n": "290000-01-01 00:00:00",
        "o": "18446744073709551615",
    }
    assert answer.json()["columns"][0] == {"name": "a", "type": "BIGINT"}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE latest",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO latest SELECT * FROM latest",
        "WITH x AS (INSERT INTO latest VALUES (1) RETURNING *) SELECT * FROM x",
        "DELETE FROM raw",
        "COPY raw TO '/tmp/stolen.csv'",
        "COPY (SELECT 1) TO PROGRAM 'sh'",
        "ATTACH '/tmp/x.db'",
        "EXPORT DATABASE '/tmp/x'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "SET threads = 8",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "CALL pragma_version()",
        "PREPARE x AS SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "CHECKPOINT",
        "USE memory",
        "CREATE SECRET (TYPE s3)",
        "CREATE MACRO f(x) AS x",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM READ_TEXT('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM read_parquet('https://127.0.0.1/x')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT (SELECT content FROM read_text('/etc/passwd'))",
        "FROM '/etc/passwd'",
        "FROM '/etc/hosts.csv'",
        "FROM 'https://127.0.0.1/x.parquet'",
        "SELECT getenv('MISTBOW_TOKEN')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table(['raw'])",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM pg_settings",
        "FROM duckdb_views",
        "FROM sqlite_master",
        "FROM information_schema.tables",
        "DESCRIBE pg_catalog.pg_settings",
        "SELECT current_setting('memory_limit')",
        "SELECT system.main.current_setting('threads')",
        "SELECT version()",
        "SELECT pg_sleep(1)",
        "SELECT * FROM pandas_scan(1)",
        "SELECT * FROM arrow_scan(1, 2, 3)",
        "SELECT * FROM sys",
        "SELECT * FROM query",
        "SELECT * FROM channel",
        "SELECT * FROM nothing",
        "SHOW TABLES",
        "SELECT * FROM (SHOW ALL TABLES)",
        "SELEC 1",
        "SELECT ?",
        "SELECT 1 WHERE $name = 1",
        "SELECT CAST('x' AS INTEGER)",
        "SELECT " + "(" * 50 + "1",
    ],
)
def test_disallowed_statement_is_rejected(agent: AgentClient, query: str) -> None:
    assert ask(agent, query).status_code == 400


def test_deeply_nested_query_is_rejected_and_next_runs(agent: AgentClient) -> None:
    for query in ("SELECT " + "(" * 20_000, "SELECT " + "1+" * 20_000 + "1"):
        assert ask(agent, query).status_code in (400, 413)
    assert rows(agent, "SELECT 1") == [[1]]


def test_error_has_line_and_column(agent: AgentClient) -> None:
    error = refusal(agent, "SELECT 'é',\n  nope(1)")
    assert "nope" in error["message"]
    assert error["details"] == {"line": 2, "column": 3}
    assert "\n" not in error["message"]


def test_invalid_body_is_rejected(agent: AgentClient) -> None:
    for body in (
        {},
        {"query": 1},
        {"query": "SELECT ?", "parameters": {"a": 1}},
        {"query": "SELECT ?", "parameters": [[1]]},
        {"query": "SELECT ?", "parameters": [2**64]},
        {"query": "SELECT 1", "parameters": [1]},
        {"query": "SELECT 1", "format": "xml"},
        {"query": "SELECT 1", "limit": 1},
    ):
        answer = httpx.post(f"{agent.url}/sql", json=body, headers=AUTHORIZED)
        assert answer.status_code == 400, body


def test_token_with_entity_prefix_reads_no_other_entities(agent: AgentClient) -> None:
    def asked(query: str) -> httpx.Response:
        headers = {**AUTHORIZED, "Mistbow-Entity-Prefix": "a"}
        return httpx.post(f"{agent.url}/sql", json={"query": query}, headers=headers)

    for table in ("latest", "metadata", "historical"):
        query = "SELECT DISTINCT entity FROM latest WHERE entity >= 'a'"
        assert asked(query.replace("latest", table)).json()["rows"] == [["a"]], table
    assert asked("SELECT 1 FROM raw").status_code == 403
    assert asked("SELECT * FROM historical WHERE entity = 'b'").json()["rows"] == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT list(range) FROM range(100000000)",
        # DuckDB does not count these texts among what it takes.
        "SELECT length(repeat('x', 500000000))",
    ],
)
def test_memory_is_bounded(agent: AgentClient, query: str) -> None:
    assert "64 MiB" in refusal(agent, query, 413)["message"]
    assert rows(agent, "SELECT 1") == [[1]]


def test_rows_and_bytes_are_bounded(agent: AgentClient) -> None:
    assert "LIMIT" in refusal(agent, "SELECT * FROM range(1001)", 413)["hint"]
    assert len(rows(agent, "SELECT * FROM range(1001) LIMIT 1000")) == 1000
    # The query fails early, not after it has made all rows.
    assert "1000 rows" in refusal(agent, "SELECT * FROM range(1000000000000)", 413)["message"]
    big = "SELECT repeat('x', 1000000) FROM range(40)"
    assert "bytes" in refusal(agent, big, 413)["message"]


def test_query_of_disconnected_client_is_ended(agent: AgentClient) -> None:
    def select_one(timeout: float) -> httpx.Response:
        body = {"query": "SELECT 1"}
        return httpx.post(f"{agent.url}/sql", json=body, headers=AUTHORIZED, timeout=timeout)

    def is_busy() -> bool:
        try:
            select_one(timeout=0.5)
        except httpx.TimeoutException:
            return True
        return False

    assert select_one(timeout=60).is_success  # the next query finds an idle process
    address = urlsplit(agent.url)
    body = json.dumps({"query": "SELECT count(*) FROM range(1000000000000)"})
    head = (
        f"POST /sql HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall((head + body).encode())
        eventually(is_busy, what="the query runs")
    assert select_one(timeout=20).json()["rows"] == [[1]]
