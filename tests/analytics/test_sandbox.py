"""The sandbox: answers, failures and the time limit of a process."""

import json

import pytest

from analytics.sandbox import SandboxError, run

pytestmark = pytest.mark.usefixtures("processes")
LIMIT_S = 60.0


def test_run_returns_output_for_message() -> None:
    assert json.loads(run("json.tool", [], b'{"a": 1}', LIMIT_S)) == {"a": 1}


def test_run_raises_last_line_of_error() -> None:
    with pytest.raises(SandboxError, match="Expecting value: line 1 column 1"):
        run("json.tool", [], b"?", LIMIT_S)


def test_run_kills_process_at_limit_and_returns_its_output() -> None:
    hanging = "import time; print('first', flush=True); time.sleep(600)"
    with pytest.raises(SandboxError, match="no answer within 5 s") as raised:
        run("timeit", [hanging], b"", 5.0)
    assert raised.value.output == b"first\n"
