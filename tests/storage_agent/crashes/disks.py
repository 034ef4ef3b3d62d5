"""A file system on a loop device, for tests of a power cut and of a full disk.

A simulated power cut discards all writes that no fsync has waited for. A real disk may have stored
some of these writes, in whole or in part; the simulation does not cover this case.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.conditions import eventually
from tests.support.programs import program

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
        # A process that copies all mounts, as ip netns exec does, would retain the disk.
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
        """Discard all data that was not synced, and let every access fail until ``come_back``."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # On another file system this would be the end of the machine.
            assert self._is_behind(os.fstat(folder).st_dev)
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def come_back(self) -> None:
        """Mount the file system again, which replays its journal.

        No process may have an open file on the file system.
        """
        self._unmount()
        self._mount()

    def fill(self) -> None:
        """Fill the file system except for 64 KiB, by one file."""
        with self._filler.open("ab") as file:
            free = shutil.disk_usage(self.root).free
            os.posix_fallocate(file.fileno(), 0, max(1, free - _SPARE_BYTES))

    def make_room(self) -> None:
        """Free the space that ``fill`` took."""
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
