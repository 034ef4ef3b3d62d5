"""All files of a running suite can be used by their owner only, even with the umask 000."""

import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.support.suite import Suite


def processes_of(suite: Suite) -> list[psutil.Process]:
    return [suite.process, *suite.process.children(recursive=True)]


def files_of(suite: Suite) -> Iterator[Path]:
    """Yield the home, scratch folders, and all files that the processes have open."""
    folders = [suite.home]
    for process in processes_of(suite):
        try:
            yield from (Path(each.path) for each in process.open_files() if each.mode != "r")
        except psutil.Error:
            continue
        for parent in (Path("/dev/shm"), Path(tempfile.gettempdir())):
            folders += parent.glob(f"mistbow-spark-{process.pid}")
            folders += parent.glob(f"hsperfdata_*/{process.pid}")
    for folder in folders:
        yield folder
        yield from folder.rglob("*")


def test_files_of_the_suite_are_private_whatever_the_umask(suite: Suite) -> None:
    modes: dict[str, int] = {}
    for path in files_of(suite):
        try:
            status = path.lstat()
        except FileNotFoundError:  # deleted meanwhile
            continue
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            modes[str(path)] = stat.S_IMODE(status.st_mode)
    del modes[str(suite.home / "run.txt")]  # of the test itself
    open_to_others = {path: oct(mode) for path, mode in modes.items() if mode & 0o077}
    assert open_to_others == {}
    for part in ("agent.lock", "agent/heads.json", "ignite/server.xml", "logs/worker.jsonl"):
        assert str(suite.home / part) in modes
    assert any("mistbow-spark-" in path for path in modes)
    print(f"{len(modes)} files and folders, all private")
