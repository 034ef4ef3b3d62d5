"""The error of a Spark query in one line, without stack traces and Spark's own words."""

import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile

_TRACEBACK = "Traceback (most recent call last):"
_CALL = "An error occurred while calling"
_CODE = re.compile(r"^\[([A-Z0-9_.]+)\] ")
_SQL_STATE = re.compile(r"(\s*SQLSTATE: \w+)+$")
_OWN_ERROR = re.compile(r"^mistbow\.errors\.\w+: ")
_MODULE = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z_]\w*(?:: |$))")
_EXCEPTION = re.compile(r"([A-Z]\w*(?:Error|Exception))(?:: (.*))?")
_OUT_OF_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
_NO_REASON = "the engine gave no reason"
_MAX_LENGTH = 500


def summarize(text: str) -> str:
    """Return the cause that the text of an error from Spark contains, in one line.

    The names of exceptions of Python and Java, which only developers know, are omitted.

    >>> summarize("[FAILED] In Python: Traceback (most recent call last):\\n  File x\\nKeyError: 1")
    'the computation failed: 1; the log of the worker has the details'
    >>> summarize("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\\n=== Streaming Query ===")
    'DIVIDE_BY_ZERO: Division by zero.'
    """
    lines = text.strip().splitlines()
    traces = [number for number, line in enumerate(lines) if line.rstrip().endswith(_TRACEBACK)]
    if traces:
        # Of chained errors, the last one has ended the query.
        line = _error_after_frames(lines[traces[-1] + 1 :])
    elif len(lines) > 1 and lines[0].startswith(_CALL):
        line = lines[1].removeprefix(": ")
    else:
        line = lines[0] if lines else ""
    line = _CODE.sub(r"\1: ", _SQL_STATE.sub("", line.strip()))
    line = _MODULE.sub("", _OWN_ERROR.sub("", line))[:_MAX_LENGTH].strip()
    exception = _EXCEPTION.fullmatch(line)
    return (line if exception is None else _described(*exception.groups())) or _NO_REASON


def _described(name: str, reason: str | None) -> str:
    """Return a description of an exception of Python or Java; ``reason``: its message, if any."""
    because = f": {reason}" if reason else ""
    if name in _OUT_OF_MEMORY:
        return f"the worker is out of memory{because}"
    return f"the computation failed{because}; the log of the worker has the details"


def _error_after_frames(lines: Sequence[str]) -> str:
    """Return the error that follows the indented frames of a Python traceback, in one line."""
    error = dropwhile(lambda line: not line.strip() or line[0].isspace(), lines)
    return " ".join(takewhile(_is_of_error, error))


def _is_of_error(line: str) -> bool:
    return bool(line.strip()) and not line[0].isspace() and not line.startswith("=== ")
