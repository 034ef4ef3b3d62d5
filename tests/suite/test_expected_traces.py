"""Traces of expected faults in the output of a process become one line; others stay whole."""

import pytest

from suite.expected_traces import TraceFilter

_AT = "2026-11-23T07:58:19.580"
_EVENT = f"{_AT} SEVERE  Critical system error detected."
_DUMP = f"{_AT} SEVERE org.apache.ignite.FailureProcessor Thread dump at 2026/11/23 07:58:19 UTC"
_FULL = [
    "class org.apache.ignite.StorageException: Failed to initialize a file",
    "\tat org.apache.ignite.FilePageStore.init(FilePageStore.java:617)",
    "Caused by: java.io.IOException: No space left on device",
    "\tat java.base/sun.nio.ch.FileDispatcherImpl.pwrite0(Native Method)",
]
_OTHER = ["java.lang.NullPointerException: null", "\tat org.apache.ignite.A.b(A.java:1)"]
_THREADS = ['Thread [name="main", id=1]', "        at java.lang.Thread.run(Thread.java:840)"]
_SAYS = (
    "mistbow: ignite: No space left on device; free space on this disk "
    "(a trace of 4 lines is omitted)"
)


def filtered(*lines: str) -> list[str]:
    traces = TraceFilter("ignite")
    return [out for line in lines for out in traces.feed(line)] + list(traces.close())


def test_trace_of_a_full_disk_becomes_one_line() -> None:
    assert filtered("before", _EVENT, *_FULL, "2026-11-23T07:58:20 INFO after", "text") == [
        *("before", _EVENT, _SAYS),
        *("2026-11-23T07:58:20 INFO after", "text"),
    ]
    assert filtered(_EVENT, *_FULL) == [_EVENT, _SAYS]


def test_dump_of_threads_after_a_full_disk_is_omitted() -> None:
    assert filtered(_EVENT, *_FULL, _DUMP, *_THREADS) == [_EVENT, _SAYS]
    assert filtered(_DUMP, *_THREADS) == [_DUMP, *_THREADS]


@pytest.mark.parametrize(
    "error",
    [
        "class IgniteException: Can not perform the operation because the cluster is inactive.",
        'class IgniteSQLException: Failed to parse query. Schema "SYS" not found; SQL statement:',
    ],
)
def test_trace_of_a_request_before_ignite_is_active_becomes_one_line(error: str) -> None:
    event = f"{_AT} WARNING ClientListenerNioListener Failed to process client request [req=1]"
    assert filtered(event, error, _OTHER[1], f"{_AT} INFO after") == [
        *(event, "Ignite is not active yet (a trace of 2 lines is omitted)", f"{_AT} INFO after")
    ]
    assert filtered(event, *_OTHER) == [event, *_OTHER]


def _not_found(statement: str) -> list[str]:
    """Return an event of a query of a table that is not found, with its trace."""
    found = 'Table "NODE_ATTRIBUTES" not found; SQL statement:'
    package = "org.apache.ignite.internal.processors.query.h2"
    return [
        f"{_AT} WARNING ClientListenerNioListener Failed to process client request [req=1, "
        f"msg=Failed to parse query. {found}",
        f"{statement} [42102-197]]",
        f"class IgniteSQLException: Failed to parse query. {found}",
        f"{statement} [42102-197]",
        f"\tat {package}.H2Connection.prepareStatementNoCache(H2Connection.java:194)",
        f"\tat {package}.IgniteH2Indexing.querySqlFields(IgniteH2Indexing.java:940)",
        f"Caused by: org.h2.jdbc.JdbcSQLException: {found}",
        f"{statement} [42102-197]",
        f"\tat {package}.H2Connection.prepareStatementNoCache(H2Connection.java:191)",
        "\t... 27 more",
        "",
    ]


def test_trace_of_a_view_that_ignite_has_not_added_yet_becomes_one_line() -> None:
    event, *trace = _not_found("SELECT VALUE FROM SYS.NODE_ATTRIBUTES WHERE NAME = 'folder'")
    assert filtered(event, *trace, f"{_AT} INFO after") == [
        *(event, "Ignite is not active yet (a trace of 10 lines is omitted)", f"{_AT} INFO after")
    ]


def test_trace_of_another_table_that_is_not_found_stays_whole() -> None:
    lines = _not_found("SELECT VALUE FROM NODE_ATTRIBUTES")
    assert filtered(*lines) == lines


def test_later_trace_of_the_same_run_becomes_one_line() -> None:
    warning = f"{_AT} WARNING Failed to process a request"
    assert filtered(_EVENT, *_FULL, warning, *_OTHER, _EVENT, "a text") == [
        *(_EVENT, _SAYS, warning),
        "mistbow: ignite: java.lang.NullPointerException: null (a trace of 2 lines is omitted)",
        *(_EVENT, "a text"),
    ]


def test_trace_of_another_error_stays_whole() -> None:
    lines = [_EVENT, *_OTHER, _EVENT, *_OTHER]
    assert filtered(*lines) == lines


def test_lines_without_an_event_pass_at_once() -> None:
    traces = TraceFilter("worker")
    for line in (*_FULL, "a banner"):
        assert list(traces.feed(line)) == [line]
