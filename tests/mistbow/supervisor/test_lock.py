import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mistbow.errors import ConflictError
from mistbow.ports import LOOPBACK, free_ports, is_taken
from mistbow.settings import RunSettings
from mistbow.supervisor.lock import check_ports, only_run


def test_second_run_in_a_home_is_refused_and_told_of_the_first(tmp_path):
    with only_run(tmp_path), pytest.raises(ConflictError, match=f"as process {os.getpid()}"):
        only_run(tmp_path).__enter__()
    with only_run(tmp_path):
        pass


def test_lock_outlives_its_holder_in_what_inherited_it(tmp_path):
    with only_run(tmp_path) as lock:
        heir = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock]
        )
    with pytest.raises(ConflictError):
        only_run(tmp_path).__enter__()
    heir.communicate(b"\n")
    with only_run(tmp_path):
        pass


def test_free_ports_are_none_that_the_system_gives_away_itself():
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0])
    found = free_ports(50)
    assert len(set(found)) == 50
    assert all(1024 < port < first for port in found)


def test_taken_port_is_told_with_its_setting():
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        port = server.getsockname()[1]
        names = [name for name in RunSettings().ports if name != "enabler_port"]
        free = dict(zip(names, free_ports(len(names)), strict=True))
        with pytest.raises(ConflictError, match=rf"port {port} \(MISTBOW_ENABLER_PORT\)$"):
            check_ports(RunSettings(enabler_port=port, **free))
    assert not is_taken(port)
    check_ports(RunSettings(enabler_port=port, **free))
