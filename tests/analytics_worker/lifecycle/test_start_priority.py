"""The CPU priority of a worker that starts, in a session of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

_AUTOGROUP = Path("/proc/self/autogroup")
_SESSION = f"""
from pathlib import Path
from analytics_worker.lifecycle.start_priority import low_start_priority
from tests.support.conditions import eventually

def nice():
    return int(Path("{_AUTOGROUP}").read_text().split()[-1])

with low_start_priority():
    print(nice())
print(nice())
with low_start_priority(max_s=0.2):
    print(nice())
    eventually(lambda: nice() == 0, what="the end of the low priority")
"""


def _run(*, is_leader: bool) -> list[str]:
    """Run the program in a new session, as its leader or as a child of its leader.

    A session that is as old as the system may have no autogroup.
    """
    command = [sys.executable, "-c", _SESSION]
    if not is_leader:
        command = [sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"]
    ended = subprocess.run(
        command, start_new_session=True, capture_output=True, text=True, timeout=60
    )
    assert not ended.stderr
    return ended.stdout.split()


@pytest.mark.skipif(not _AUTOGROUP.exists(), reason="the system has no autogroups")
@pytest.mark.usefixtures("processes")
def test_priority_of_a_session_is_low_while_its_worker_starts_but_not_for_long() -> None:
    assert _run(is_leader=True) == ["10", "0", "10"]


@pytest.mark.skipif(not _AUTOGROUP.exists(), reason="the system has no autogroups")
@pytest.mark.usefixtures("processes")
def test_priority_of_a_session_with_other_programs_stays() -> None:
    assert _run(is_leader=False) == ["0", "0", "0"]
