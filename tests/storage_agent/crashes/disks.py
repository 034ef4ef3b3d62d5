"""A file system of its own, on a loop device: it can lose its power, and it can be full.

Cut off are the file system's writes that no fsync has waited for, all of them: a real disk may
have written some, and may tear one. That is not simulated.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.programs import program
from tests.support.waiting import eventually

_EXT4_IOC_SHUTDOWN: Final = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
_NO_LOG_FLUSH: Final = 2
# Nothing is written behind fsync's back while a test lasts.
_OPTIONS: Final = "loop,commit=300"
_SPARE_BYTES: Final = 2**16


def _can_mount() -> bool:
    loops = Path("/dev/loop-control").exists()
    return os.geteuid() == 0 and loops and program("mkfs.ext4") is not None


needs_disks = pytest.mark.skipif(
    "MISTBOW_NEEDS_DOCKER" not in os.environ and not _can_mount(),
    reason="a file system on a loop device needs root, /dev/loop-control and mkfs.ext4",
)


class Disk:
    """An ext4 file system in a file of ``folder``, mounted at ``root`` inside the ``with``."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder / "mounts"
        self.root = self._folder / "disk"
        self._image = folder / "disk.img"
        self._filler = self.root / "filler"
        self._megabytes = megabytes

    def __enter__(self) -> "Disk":
        with self._image.open("wb") as file:
            file.truncate(self._megabytes * 2**20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._folder.mkdir()
        _run("mount", "--bind", str(self._folder), str(self._folder))
        # A process that takes a copy of all mounts, as ip netns exec does, would keep the disk.
        _run("mount", "--make-shared", str(self._folder))
        self.root.mkdir()
        self._mount()
        return self

    def __exit__(self, *_: object) -> None:
        if os.path.ismount(self.root):
            self._unmount()
        _run("umount", str(self._folder))
        self._image.unlink()

    def cut_power(self) -> None:
        """Lose at once what was not synced; until ``come_back`` every access fails."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # On another file system this would be the end of the machine.
            assert self._is_behind(os.fstat(folder).st_dev)
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def come_back(self) -> None:
        """Mount it again, by what its journal says; nobody may have anything open on it."""
        self._unmount()
        self._mount()

    def fill(self) -> None:
        """Leave no room."""
        with self._filler.open("ab") as file:
            free = shutil.disk_usage(self.root).free
            os.posix_fallocate(file.fileno(), 0, max(1, free - _SPARE_BYTES))

    def make_room(self) -> None:
        """Have the room again."""
        self._filler.unlink()

    def _is_behind(self, device: int) -> bool:
        backing = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file")
        return backing.exists() and backing.read_text().strip() == str(self._image.resolve())

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", "-o", _OPTIONS, str(self._image), str(self.root))

    def _unmount(self) -> None:
        eventually(self._let_go, what="the disk is not in use")
        eventually(self._is_off, what="nothing else has the disk mounted")

    def _let_go(self) -> bool:
        _run("umount", str(self.root))
        return True

    def _is_off(self) -> bool:
        return not _run("losetup", "--associated", str(self._image))


def _run(*argv: str) -> str:
    found = program(argv[0])
    assert found is not None, f"{argv[0]} is not installed"
    done = subprocess.run([found, *argv[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
