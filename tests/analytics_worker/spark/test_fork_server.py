"""The fork server, from which the Python processes of Spark are forked."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from analytics_worker.spark.fork_server.supervision import start_fork_server
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("processes")

_STATEMENT = ("-m", "timeit", "--number=1", "--repeat=1")
_WORKER = """
from analytics_worker.spark.fork_server.supervision import start_fork_server
import subprocess
subprocess.run([start_fork_server(), *{arguments!r}])
"""


@pytest.fixture(scope="module")
def python() -> str:
    return start_fork_server()


def _run(python: str, statement: str, **options: str) -> str:
    done = subprocess.run(
        [python, *_STATEMENT, statement],
        env={**os.environ, **options},
        cwd=options.get("folder"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[0]


def test_a_process_of_the_launcher_has_all_modules_loaded(python: str) -> None:
    for module in ("spark.sink", "evaluate.computation", "spark.source"):
        statement = f"import sys; print('analytics_worker.{module}' in sys.modules)"
        assert _run(python, statement) == "True"


def test_a_process_has_the_environment_and_the_folder_of_the_launcher(
    python: str, tmp_path: Path
) -> None:
    statement = "import os; print(os.environ['colour'], os.getcwd())"
    assert _run(python, statement, colour="blue", folder=str(tmp_path)) == f"blue {tmp_path}"


def test_a_process_imports_from_the_path_of_the_launcher(python: str, tmp_path: Path) -> None:
    (tmp_path / "late_module.py").write_text("colour = 'blue'\n")
    statement = "import late_module; print(late_module.colour)"
    assert _run(python, statement, PYTHONPATH=str(tmp_path)) == "blue"


def test_a_process_reads_and_writes_the_streams_of_the_launcher(python: str) -> None:
    done = subprocess.run(
        [python, "-m", "json.tool", "--compact"], input=b'{"a": [1, 2]}', capture_output=True
    )
    assert done.stdout == b'{"a":[1,2]}\n'
    done = subprocess.run([python, "-m", "json.tool"], input=b"{", capture_output=True)
    assert b"Expecting property name" in done.stderr


def test_a_module_that_the_server_has_imported_runs_without_a_warning(python: str) -> None:
    command = [python, "-m", "pyspark.sql.worker.create_data_source"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "create_data_source.py" in done.stderr  # the module has run, and lacks an address
    assert "sys.modules" not in done.stderr


def test_other_arguments_are_passed_to_python(python: str) -> None:
    done = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True)
    assert done.stdout.decode().strip() == sys.prefix


def test_a_signal_to_the_launcher_ends_the_process(python: str) -> None:
    launched = subprocess.Popen(
        [python, *_STATEMENT, "import os, time; print(os.getpid(), flush=True); time.sleep(600)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launched.stdout is not None
    pid = int(launched.stdout.readline())
    launched.terminate()
    launched.wait(10)
    eventually(lambda: not psutil.pid_exists(pid), timeout=10, what="the process has ended")


def test_a_killed_server_is_started_again_and_its_processes_run_on(python: str) -> None:
    statement = "import os, sys; print(os.getppid(), flush=True); sys.stdin.read(); os._exit(0)"
    launched = subprocess.Popen(
        [python, *_STATEMENT, statement],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launched.stdout is not None
    server = int(launched.stdout.readline())
    os.kill(server, signal.SIGKILL)
    assert int(_run(python, "import os; print(os.getppid())")) != server
    launched.communicate("\n", timeout=10)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """Yield a process whose forked process prints the ID of the fork server and goes on."""
    statement = "import os, sys; print(os.getppid(), flush=True); sys.stdin.read(); os._exit(0)"
    script = _WORKER.format(arguments=[*_STATEMENT, statement])
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started


def test_the_server_ends_with_its_worker(worker: subprocess.Popen[str]) -> None:
    assert worker.stdout is not None
    server = int(worker.stdout.readline())
    worker.kill()
    eventually(lambda: not psutil.pid_exists(server), timeout=10, what="the fork server has ended")
