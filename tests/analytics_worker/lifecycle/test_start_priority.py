"""The CPU priority of a worker that starts, in a session of its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import analytics_worker

_AUTOGROUP = Path("/proc/self/autogroup")
_WORKER = Path(analytics_worker.__file__).parent
_SESSION = f"""
from pathlib import Path
from analytics_worker.lifecycle.start_priority import StartPriority
from tests.support.conditions import eventually

def nice():
    return int(Path("{_AUTOGROUP}").read_text().split()[-1])

priority = StartPriority()
for change in (priority.lower, priority.lower, priority.restore, priority.lower):
    change()
    print(nice())
StartPriority(max_s=0.2).lower()
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
    assert _run(is_leader=True) == ["19", "19", "0", "0", "19"]


@pytest.mark.skipif(not _AUTOGROUP.exists(), reason="the system has no autogroups")
@pytest.mark.usefixtures("processes")
def test_priority_of_a_session_with_other_programs_stays() -> None:
    assert _run(is_leader=False) == ["0"] * 5


def test_priority_is_low_before_the_imports_of_the_worker() -> None:
    statements = ast.parse((_WORKER / "__main__.py").read_text()).body
    assert [ast.unparse(each) for each in statements[1:3]] == [
        "from analytics_worker.lifecycle.start_priority import START_PRIORITY",
        "START_PRIORITY.lower()",
    ]
