"""The folder that Spark is started from: its own, but for the zip of PySpark in it.

Spark has its Python processes import PySpark from that zip, and what is in a zip is compiled anew
by each of them: more than half of their start. Without the zip they find the installed package.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_PARTS = ("bin", "jars")


def spark_home() -> Path:
    """Return the folder, made if need be; PySpark's own where it cannot be made."""
    own = installed_spark()
    home = Path(sys.prefix, "share", "mistbow", "spark")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _link(home / part, own / part)
    except OSError:
        return own
    return home


def installed_spark() -> Path:
    """Return PySpark's own folder, without importing it."""
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
