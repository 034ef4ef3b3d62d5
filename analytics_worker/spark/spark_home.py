"""The folder from which Spark starts: links to PySpark's files, except its zip of Python modules.

Spark's Python processes import PySpark from a zip, and each process compiles PySpark again, which
takes more than half of the start. In this folder, another folder replaces the zip. The replacement
contains only a ``sitecustomize``, which imports all modules once in the daemon from which the
processes are forked.
"""

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

_PARTS = ("bin", "jars")
_SITECUSTOMIZE = """import sys

if "pyspark.daemon" in sys.orig_argv:
    import analytics_worker.spark.preload
"""


def spark_home() -> Path:
    """Create the folder from which Spark starts, and return its path.

    If the folder cannot be created, return PySpark's own folder.
    """
    own = installed_spark()
    home = Path(sys.prefix, "share", "mistbow", "spark")
    sitecustomize = home / "python" / "lib" / "pyspark.zip" / "sitecustomize.py"
    try:
        sitecustomize.parent.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _link(home / part, own / part)
        _write(sitecustomize, _SITECUSTOMIZE)
        share_installation()
    except OSError:
        return own
    return home


def share_installation() -> None:
    """Let all users read the files that Mistbow adds to its installation, as its other files."""
    folder = Path(sys.prefix, "share", "mistbow")
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            more = 0o055 if stat.S_ISDIR(mode) else 0o044
            if mode & more != more:
                path.chmod(stat.S_IMODE(mode) | more)


def installed_spark() -> Path:
    """Return the folder in which PySpark is installed, without importing PySpark."""
    spec = find_spec("pyspark")
    assert spec is not None  # noqa: S101 - it is one of our requirements
    assert spec.origin is not None  # noqa: S101 - it is a package with code of its own
    return Path(spec.origin).parent


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.resolve() == target.resolve():
        return
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.symlink_to(target)
    new.replace(link)


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)
