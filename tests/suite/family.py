"""A supervisor with small child processes, which tests start and kill.

``python -m tests.suite.family FOLDER``: the children ``a`` and ``b`` each start a grandchild in a
session of its own; ``b`` starts after ``a``. Each child writes to ``FOLDER/order`` when it starts
and when it ends.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from rich.console import Console

from suite.child import Child
from suite.child_logs import FileLog
from suite.supervisor import Supervisor

# Hard to end on purpose: a grandchild in a session of its own that ignores SIGTERM.
GRANDCHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

MEMBER = """
import pathlib, signal, subprocess, sys
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
def note(what):
    with (folder / "order").open("a") as file:
        file.write(f"{what} {name}\\n")
def end(*_):
    note("end")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
subprocess.Popen([sys.executable, "-c", sys.argv[3]], start_new_session=True)
note("start")
(folder / name).touch()
while True:
    signal.pause()
"""


def member(name: str, folder: Path, after: tuple[str, ...] = ()) -> Child:
    """Return a child process, which is ready when the file ``name`` in ``folder`` exists."""
    argv = (sys.executable, "-c", MEMBER, name, str(folder), GRANDCHILD)
    return Child(name, argv, (folder / name).exists, after=after)


def main(folder: Path) -> None:
    """Run the family until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    output = FileLog(folder / "logs", Console())
    family = Supervisor([member("b", folder, after=("a",)), member("a", folder)], output)
    if family.start(stopping):
        (folder / "up").write_text(str(os.getpid()))
        stopping.wait()
    family.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
