"""The folder of the installed Spark, and the folder of the files that a worker adds."""

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path


def installed_spark() -> Path:
    """Return the folder in which PySpark is installed, without importing PySpark."""
    spec = find_spec("pyspark")
    assert spec is not None  # noqa: S101 - it is one of our requirements
    assert spec.origin is not None  # noqa: S101 - it is a package with code of its own
    return Path(spec.origin).parent


def installed_folder() -> Path:
    """Return the folder of the files that a worker adds, which may not exist yet."""
    return Path(sys.prefix, "share", "mistbow")


def share_installation() -> None:
    """Make the files that Mistbow adds to its installation readable for all users."""
    folder = installed_folder()
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            more = 0o055 if stat.S_ISDIR(mode) else 0o044
            if mode & more != more:
                path.chmod(stat.S_IMODE(mode) | more)


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a file in one step, unless the file has this text and mode already.

    Raises ``OSError`` if the file cannot be written.
    """
    if path.exists() and path.read_text() == text and stat.S_IMODE(path.stat().st_mode) == mode:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.chmod(mode)
    new.replace(path)
