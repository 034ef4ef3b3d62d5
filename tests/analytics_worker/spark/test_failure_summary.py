"""Summaries of errors of Spark, whose texts are those of real queries."""

import pytest

from analytics_worker.spark.failure_summary import summarize
from analytics_worker.spark.query import parse_failure

_END = """ SQLSTATE: 38000
=== Streaming Query ===
Identifier: f-1 [id = 951aa1e5, runId = e1952014]
Current Committed Offsets: {}
"""

IN_SOURCE = f"""\
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
latestOffset: Traceback (most recent call last):
  File "source.py", line 14, in latestOffset
    raise ConnectionError("inner")
ConnectionError: inner

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "python_streaming_source_runner.py", line 269, in main
    latest_offset_func(reader, outfile)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
mistbow.errors.UnavailableError: http://edge:8300 does not answer: [Errno 111] Connection refused
{_END}"""

IN_TASK = f"""\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "operator.py", line 20, in read
    if bad: raise ValueError("two\\nlines")
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: two
lines
{_END}"""

IN_JAVA = (
    "An error occurred while calling o45.start.\n: java.lang.OutOfMemoryError: Java heap space\n"
)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (IN_SOURCE, "http://edge:8300 does not answer: [Errno 111] Connection refused"),
        (IN_TASK, "the computation failed: two lines; the log of the worker has the details"),
        (
            IN_TASK.replace("ValueError: two\nlines", "pkg.module.OwnError"),
            "the computation failed; the log of the worker has the details",
        ),
        (IN_TASK.replace("ValueError: two\nlines", "MemoryError"), "the worker is out of memory"),
        (f"[USER_RAISED_EXCEPTION] boom{_END}", "USER_RAISED_EXCEPTION: boom"),
        (IN_JAVA, "the worker is out of memory: Java heap space"),
        ("x: Traceback (most recent call last):\n  File y", "the engine gave no reason"),
        ("", "the engine gave no reason"),
        ("the Spark query has stopped", "the Spark query has stopped"),
    ],
)
def test_summary_of_an_error_is_its_cause_in_one_line(text: str, summary: str) -> None:
    assert summarize(text) == summary
    assert parse_failure(text).summary == summary


def test_summary_is_bounded() -> None:
    assert len(summarize("x" * 9000)) == 500
