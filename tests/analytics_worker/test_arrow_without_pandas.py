"""Modules that a worker's processes do without, measured in new interpreters."""

import subprocess
import sys

import pytest

HEAVY = ("pandas", "antlr4", "duckdb")


def printed(program: str) -> str:
    """Run a program in a new interpreter, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module", ["analytics_worker.main", "analytics_worker.spark.fork_server.preload"]
)
def test_worker_process_imports_no_module_that_it_does_not_need(
    processes: None, module: str
) -> None:
    program = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    assert printed(program) == "[]"


def test_pandas_is_usable_after_arrow_has_been_made_to_do_without_it(processes: None) -> None:
    program = (
        "import analytics_worker, pyarrow as pa\n"
        "frame = pa.table({'a': [1, 2]}).to_pandas()\n"
        "assert pa.Table.from_pandas(frame).to_pydict() == {'a': [1, 2]}\n"
        "print(pa.array(frame['a']).to_pylist())"
    )
    assert printed(program) == "[1, 2]"
