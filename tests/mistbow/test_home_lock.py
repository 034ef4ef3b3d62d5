import errno
import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mistbow.errors import ConflictError, MistbowError
from mistbow.home_lock import home_lock
from tests.support.conditions import eventually


def lock(home: Path):
    return home_lock(home, "agent", "mistbow agent")


def test_second_owner_of_a_home_is_refused_and_the_error_names_the_first(tmp_path):
    first = f"mistbow agent already runs in {tmp_path}, as process {os.getpid()} on "
    with lock(tmp_path), pytest.raises(ConflictError, match=first + socket.gethostname()):
        lock(tmp_path).__enter__()
    with lock(tmp_path):
        pass


def test_error_names_the_command_that_has_the_home_and_not_the_second_one(tmp_path):
    with (
        home_lock(tmp_path, "run", "mistbow storage"),
        pytest.raises(ConflictError, match=f"^mistbow storage already runs in {tmp_path}, as "),
        home_lock(tmp_path, "run", "mistbow restore"),
    ):
        pass


def test_other_services_lock_the_same_home(tmp_path):
    with lock(tmp_path), home_lock(tmp_path, "worker", "mistbow worker"):
        pass


@pytest.mark.usefixtures("processes")
def test_lock_outlives_its_owner_in_a_child_that_inherited_it(tmp_path):
    with lock(tmp_path) as descriptor:
        heir = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor]
        )
    with pytest.raises(ConflictError):
        lock(tmp_path).__enter__()
    heir.communicate(b"\n")
    with lock(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_home_on_a_file_system_without_locks_is_refused_with_a_hint(number, tmp_path, monkeypatch):
    def refuse(_file, _operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(MistbowError, match=os.strerror(number)) as raised:
        lock(tmp_path).__enter__()
    assert "--home" in raised.value.hint


LOCKS_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from mistbow.home_lock import home_lock

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with home_lock(Path(sys.argv[1]), "agent", "mistbow agent"):
    print("locked", flush=True)
    input()
"""


@pytest.mark.usefixtures("processes")
def test_home_is_locked_on_a_full_disk_and_the_error_names_no_process(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", LOCKS_ON_A_FULL_DISK, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(ConflictError, match=r"as another process$"):
            lock(tmp_path).__enter__()
        holder.communicate(b"\n")
    assert holder.returncode == 0


def start(service: str, home: Path) -> subprocess.Popen[str]:
    # Port 0 is never in use, so only the home can be refused.
    argv = [sys.executable, "-m", "command_line.app", service, f"--{service}-port", "0"]
    return subprocess.Popen(
        [*argv, "--home", str(home)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("service", ["agent", "monitor"])
def test_second_process_of_a_service_on_a_home_ends_and_names_the_first(service, tmp_path):
    holder = tmp_path / f"{service}.lock"
    first = start(service, tmp_path)
    try:
        eventually(lambda: holder.exists() and holder.read_text(), what="the first has the home")
        second = start(service, tmp_path)
        _, errors = second.communicate(timeout=60)
        assert second.returncode == 1
        expected = f"mistbow: mistbow {service} already runs in {tmp_path}, as process {first.pid}"
        assert errors.startswith(expected)
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()
