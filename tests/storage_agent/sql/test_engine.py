"""The computation of queries without tables, and the encoding of their answers."""

from typing import Any

import msgspec
import pytest

from storage_agent.sql.engine import compute
from storage_agent.sql.messages import (
    AnswerFollows,
    Format,
    FromProcess,
    QueryFailed,
    SqlQuery,
    ToProcess,
    UnknownTable,
)


def no_table(_: FromProcess) -> tuple[ToProcess, bytes]:
    return UnknownTable(), b""


def run(text: str, answer_format: Format = "json") -> tuple[AnswerFollows | QueryFailed, bytes]:
    return compute(SqlQuery(text, [], answer_format, 10, 1000, 2**20), 64, no_table)


def row(text: str) -> list[Any]:
    """Return the only row of a JSON answer."""
    message, data = run(text)
    assert isinstance(message, AnswerFollows), message
    (found,) = msgspec.json.decode(data)["rows"]
    return list(found)


def refusal(text: str, answer_format: Format = "json") -> str:
    message, _ = run(text, answer_format)
    assert isinstance(message, QueryFailed)
    assert message.reason == "query"
    return message.message


@pytest.mark.parametrize("text", ["SELECT 1 AS a, 2 AS a", "SELECT 1 AS b, 2 AS a, 3 AS a LIMIT 0"])
def test_lines_with_columns_of_one_name_are_refused(text: str) -> None:
    message = refusal(text, "lines")
    assert "the name 'a'" in message
    assert "name the columns differently, as in h.ts AS historical_ts" in message


def test_lines_with_columns_of_different_names_have_all_values() -> None:
    assert run('SELECT 1 AS a, 2 AS "A"', "lines")[1].startswith(b'{"a":1,"A":2}\n')


def test_json_with_columns_of_one_name_has_all_values() -> None:
    assert row("SELECT 1 AS a, 2 AS a") == [1, 2]


@pytest.mark.parametrize("interval", ["interval '1000000000 days'", "interval '-1000000000 days'"])
@pytest.mark.parametrize("answer_format", ["json", "lines"])
def test_interval_beyond_those_of_python_is_refused(interval: str, answer_format: Format) -> None:
    for text in (f"SELECT {interval} AS i", f"SELECT [{interval}] AS i"):
        message = refusal(text, answer_format)
        assert "a value is beyond the range of Python" in message
        assert "CAST(x AS VARCHAR)" in message
    assert row(f"SELECT CAST({interval} AS VARCHAR)") in (["1000000000 days"], ["-1000000000 days"])


def test_times_are_text_as_documented() -> None:
    times = "date 'infinity', date '-infinity', timestamp 'infinity', timestamp '-infinity'"
    assert row(f"SELECT {times}") == [
        *("9999-12-31", "0001-01-01"),
        *("9999-12-31T23:59:59.999999", "0001-01-01T00:00:00"),
    ]
    assert row("SELECT date '12026-11-29', interval '1 month'") == ["12026-11-29", "P30D"]
    nanoseconds = "timestamp_ns '2026-11-29 10:00:00.123456789'"
    assert row(f"SELECT {nanoseconds}, CAST({nanoseconds} AS VARCHAR)") == [
        "2026-11-29T10:00:00.123456",
        "2026-11-29 10:00:00.123456789",
    ]
    assert row("SELECT CAST(date 'infinity' AS VARCHAR)") == ["infinity"]
