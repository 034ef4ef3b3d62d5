"""The class archive of Spark's JVM, created once per installation, which halves the start time.

The JVM maps the classes from the file, parsed and verified, instead of reading them from jars
(application class-data sharing, JEP 350). A JVM ignores a file that a different JVM wrote.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from analytics_worker.spark.installed_files import (
    installed_folder,
    installed_spark,
    share_installation,
)
from mistbow.java import archive_path, find_java, replace_class_archive

_TIMEOUT_S = 300
_MAX_REASON_LENGTH = 300


def class_archive() -> Path:
    """Return the path of the archive for the installed Java, Spark and folder of Spark.

    The file may not exist yet.
    """
    facts = f"{version('pyspark')} {installed_spark()}"
    return archive_path(installed_folder(), "spark", find_java(), facts)


def java_options() -> tuple[str, ...]:
    """Return the JVM options that use the archive; empty if there is no archive."""
    archive = class_archive()
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def ensure_class_archive(console: Console) -> None:
    """Create the archive if the archive does not exist; creating takes about 40 s.

    If creating fails, the reason is printed to ``console``; Spark then starts more slowly.
    """
    archive = class_archive()
    if archive.exists():
        return
    partial = archive.with_suffix(f".{os.getpid()}")
    with console.status("Preparing Spark (once): writing an archive of its classes"):
        reason = _create(partial)
    if reason is None:
        replace_class_archive(archive, partial)
        share_installation()
        console.print("Spark is prepared: it starts faster now", highlight=False)
    else:
        partial.unlink(missing_ok=True)
        console.print(
            f"Spark starts more slowly: its class archive failed: {reason}", highlight=False
        )


def _create(partial: Path) -> str | None:
    """Run Spark in a JVM that writes its classes to the file ``partial``.

    Return the error as a text; None after success.
    """
    argv = [sys.executable, "-m", "analytics_worker.spark.class_archive", str(partial)]
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0 and partial.exists():
        return None
    return (done.stderr or done.stdout).strip()[
        -_MAX_REASON_LENGTH:
    ] or f"exit code {done.returncode}"


def _record(archive: Path) -> None:
    from analytics_worker.spark.session import end_jvm, start_session, warm_up

    session = start_session("local[1]", "512m", (f"-XX:ArchiveClassesAtExit={archive}",))
    warm_up(session)
    end_jvm(session)


if __name__ == "__main__":
    _record(Path(sys.argv[1]))
