"""An archive of Spark's classes, made once for an installation: its JVM starts in half the time.

The JVM maps the classes from the file, parsed and verified, instead of reading them from jars
(application class-data sharing, JEP 350). A file that does not fit the JVM is passed over by it.
"""

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from analytics_worker.spark_home import spark_home
from mistbow.ignite.java import find_java

_AT_MOST_S = 300
_REASON = 300


def class_archive() -> Path:
    """Return where the archive is, or would be; it belongs to this Java, Spark and folder."""
    java = find_java().resolve()
    facts = f"{java} {java.stat().st_mtime_ns} {version('pyspark')} {spark_home()}"
    name = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return Path(sys.prefix, "share", "mistbow", f"spark-{name}.jsa")


def java_options() -> tuple[str, ...]:
    """Return what makes a JVM use the archive, if there is one."""
    archive = class_archive()
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def ensure_class_archive(console: Console) -> None:
    """Make the archive unless it is there, in about 40 s; without it Spark only starts slower."""
    archive = class_archive()
    if archive.exists():
        return
    partial = archive.with_suffix(f".{os.getpid()}")
    with console.status("Preparing Spark, once: a start-up archive of its classes"):
        reason = _make(partial)
    if reason is None:
        for old in archive.parent.glob("spark-*.jsa"):
            old.unlink()
        partial.rename(archive)
        console.print("Spark is prepared: it will start faster", highlight=False)
    else:
        partial.unlink(missing_ok=True)
        console.print(f"Spark will start slower: no class archive: {reason}", highlight=False)


def _make(partial: Path) -> str | None:
    """Run Spark for a moment so that its JVM writes the archive; return why it did not."""
    argv = [sys.executable, "-m", "analytics_worker.class_archive", str(partial)]
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_AT_MOST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0 and partial.exists():
        return None
    return (done.stderr or done.stdout).strip()[-_REASON:] or f"exit code {done.returncode}"


def _record(archive: Path) -> None:
    from analytics_worker.spark.session import end_jvm, start_session, warm_up

    session = start_session("local[1]", "512m", (f"-XX:ArchiveClassesAtExit={archive}",))
    warm_up(session)
    end_jvm(session)


if __name__ == "__main__":
    _record(Path(sys.argv[1]))
