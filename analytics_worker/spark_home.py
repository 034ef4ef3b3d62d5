"""The folder that Spark is started from: its own, but for what its Python processes load.

Spark has them import PySpark from a zip in it, and what is in a zip is compiled anew by each: more
than half of their start. Here a folder has the zip's place, and in it only what Python runs first
(``sitecustomize``): it loads what they need, once, into the process that they are forked from.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_PARTS = ("bin", "jars")
_FIRST = """import sys

if "pyspark.daemon" in sys.orig_argv:
    import analytics_worker.spark.preload
"""


def spark_home() -> Path:
    """Return the folder, made if need be; PySpark's own where it cannot be made."""
    own = installed_spark()
    home = Path(sys.prefix, "share", "mistbow", "spark")
    first = home / "python" / "lib" / "pyspark.zip" / "sitecustomize.py"
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _link(home / part, own / part)
        _write(first, _FIRST)
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


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)
