import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import psutil
import pytest
from rich.console import Console

from mistbow.errors import MistbowError
from suite.child import RESTART, Backoff, Child, ManagedChild
from suite.child_logs import FileLog
from suite.processes import children, storage
from suite.settings import RunSettings, StorageSettings
from suite.supervisor import Supervisor
from suite.watchdog import VARIABLE, sweep, tagged
from tests.suite.family import GRANDCHILD, member
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def family(processes: None, tmp_path):
    """Yield the process of a running supervisor, and the five processes below it."""
    process = subprocess.Popen([sys.executable, "-m", "tests.suite.family", str(tmp_path)])
    try:
        eventually((tmp_path / "up").exists, what="the family is up")
        descendants = psutil.Process(process.pid).children(recursive=True)
        assert len(descendants) == 5
        yield process, descendants
    finally:
        process.kill()
        process.wait()


def assert_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


def test_nothing_outlives_a_killed_supervisor(family):
    process, descendants = family
    process.kill()
    process.wait()
    assert_gone(descendants)


def test_nothing_outlives_a_stopped_supervisor_and_the_last_started_ends_first(family, tmp_path):
    process, descendants = family
    process.terminate()
    assert process.wait(30) == 0
    assert_gone(descendants)
    order = (tmp_path / "order").read_text().splitlines()
    assert order == ["start a", "start b", "end b", "end a"]


@pytest.fixture
def keep(tmp_path):
    """Yield a function that starts a child under supervision, and returns the managed child."""
    managed = []
    with (tmp_path / "terminal").open("w") as terminal:
        output = FileLog(tmp_path / "logs", Console(file=terminal, width=200))

        def start(child):
            child_process = ManagedChild(child, f"test-{os.getpid()}", output)
            managed.append(child_process)
            child_process.start()
            return child_process

        yield start
        for child_process in managed:
            child_process.stop()
        output.close()


def shown(tmp_path):
    return (tmp_path / "terminal").read_text()


def test_killed_child_starts_again_without_what_it_had_started(keep, tmp_path):
    child_process = keep(member("a", tmp_path))
    eventually((tmp_path / "a").exists)
    first, orphan = child_process.pid, psutil.Process(child_process.pid).children()[0]
    (tmp_path / "a").unlink()
    os.kill(first, signal.SIGKILL)
    eventually((tmp_path / "a").exists, what="it starts again")
    assert child_process.pid != first
    assert_gone([orphan])
    assert "a was stopped by SIGKILL" in shown(tmp_path)
    # The benchmark of the composed fog counts restarts in the logs of containers.
    assert shown(tmp_path).count(RESTART) == 1


@pytest.mark.parametrize(
    ("inherits", "expected"),
    [
        (None, {"NAMED": "1", "OTHER": "2", "ADDED": "3"}),
        (("NAMED", "UNSET"), {"NAMED": "1", "ADDED": "3"}),
        ((), {"ADDED": "3"}),
    ],
)
def test_child_inherits_only_the_variables_that_its_declaration_names(
    keep, tmp_path, monkeypatch, inherits, expected
):
    monkeypatch.setenv("NAMED", "1")
    monkeypatch.setenv("OTHER", "2")
    argv = (sys.executable, "-c", GRANDCHILD)
    child_process = keep(
        Child("heir", argv, lambda: True, {"ADDED": "3"}, patience_s=0.1, inherits=inherits)
    )
    eventually(lambda: child_process.pid)
    environment = psutil.Process(child_process.pid).environ()
    names = ("NAMED", "OTHER", "ADDED")
    assert {name: environment[name] for name in names if name in environment} == expected
    assert environment[VARIABLE] == f"test-{os.getpid()}/heir"


def test_child_that_cannot_be_started_is_tried_again(keep, tmp_path):
    program = tmp_path / "late"
    keep(Child("late", (str(program),), lambda: True))
    eventually(lambda: shown(tmp_path).count("late cannot be started") >= 2)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'began'}\n")
    program.chmod(0o755)
    eventually((tmp_path / "began").exists, what="it starts at last")


def test_a_failing_sweep_ends_no_supervision(keep, tmp_path, monkeypatch):
    failures = iter([MistbowError("these cannot be killed"), OSError("no file descriptors")])

    def failing(tag):
        if error := next(failures, None):
            raise error
        sweep(tag)

    monkeypatch.setattr("suite.child.sweep", failing)
    keep(Child("brief", (sys.executable, "-c", "print('done')"), lambda: True))
    eventually(lambda: "brief ended with code 0" in shown(tmp_path))
    assert "brief cannot be started: these cannot be killed" in shown(tmp_path)
    assert "brief cannot be started: no file descriptors" in shown(tmp_path)


def test_a_failing_probe_is_reported_once_and_stops_nothing(tmp_path):
    probes = iter([ValueError("odd answer"), ValueError("odd answer")])

    def probe():
        if error := next(probes, None):
            raise error
        return True

    child = Child("odd", (sys.executable, "-c", GRANDCHILD), probe, patience_s=0.1)
    with (tmp_path / "terminal").open("w") as terminal:
        output = FileLog(tmp_path / "logs", Console(file=terminal, width=200))
        supervisor = Supervisor([child], output)
        assert supervisor.start(threading.Event()) is True
        supervisor.stop()
        output.close()
    assert shown(tmp_path).count("odd cannot be probed: odd answer") == 1


def test_child_that_ignores_sigterm_is_killed_when_its_patience_is_over(keep):
    argv = (sys.executable, "-c", GRANDCHILD)
    child_process = keep(Child("deaf", argv, lambda: True, patience_s=0.3))
    eventually(lambda: child_process.pid)
    child = psutil.Process(child_process.pid)
    child_process.stop()
    assert_gone([child])


def test_all_lines_are_stored_and_severe_ones_are_shown(keep, tmp_path):
    text = "2026-01-01 [info     ] calm\n2026-01-01 [warning  ] storm"
    child_process = keep(Child("talker", (sys.executable, "-c", f"print({text!r})"), lambda: True))
    log = tmp_path / "logs" / "talker.log"
    eventually(lambda: "storm" in log.read_text())
    child_process.stop()
    assert "calm" in log.read_text()
    assert "storm" in shown(tmp_path)
    assert "calm" not in shown(tmp_path)


def test_sweep_finds_only_processes_with_the_tag():
    def sleeper(tag):
        argv = [sys.executable, "-c", "import time; time.sleep(600)"]
        return subprocess.Popen(argv, env={**os.environ, VARIABLE: tag})

    ours, below, other = sleeper("t-1"), sleeper("t-1/x"), sleeper("t-10")
    try:
        assert {p.pid for p in tagged("t-1")} == {ours.pid, below.pid}
        sweep("t-1")
        assert (ours.wait(), below.wait()) == (-9, -9)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_backoff_grows_to_its_limit_and_forgets_after_a_good_life():
    backoff = Backoff()
    assert [backoff.after(0) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert backoff.after(3600) == 0.2
    assert backoff.after(0) == 0.4


def test_start_gives_way_to_stop(tmp_path):
    stopping = threading.Event()
    never = Child("never", (sys.executable, "-c", GRANDCHILD), stopping.set, patience_s=0.1)
    output = FileLog(tmp_path, Console(quiet=True))
    supervisor = Supervisor([never], output)
    assert supervisor.start(stopping) is False
    supervisor.stop()
    output.close()
    assert supervisor.pids["never"] is not None


@pytest.mark.parametrize(
    ("declare", "others_first"),
    [
        (lambda home: storage(StorageSettings(home=home, services="agent,worker,monitor")), []),
        (lambda home: children(RunSettings(home=home)), ["enabler"]),
    ],
    ids=["storage", "run"],
)
def test_worker_ends_while_its_agent_runs_so_that_its_fragments_can_be_handed_over(
    declare, others_first, tmp_path
):
    declared = declare(tmp_path / "home")
    stand_ins = [member(each.name, tmp_path) for each in declared]
    output = FileLog(tmp_path / "logs", Console(quiet=True))
    supervisor = Supervisor(
        [
            replace(each, argv=other.argv, ready=other.ready, env={}, inherits=None)
            for each, other in zip(declared, stand_ins, strict=True)
        ],
        output,
    )
    try:
        assert supervisor.start(threading.Event()) is True
    finally:
        supervisor.stop()
        output.close()
    lines = (tmp_path / "order").read_text().splitlines()
    ended = [line.removeprefix("end ") for line in lines if line.startswith("end ")]
    assert ended == [*others_first, "monitor", "worker", "agent", "ignite"]
