"""The Java installation that Ignite and Spark run on, and the class archives of its JVMs."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from mistbow.errors import MistbowError

MIN_VERSION = 17
_HINT = f"Install Java {MIN_VERSION} or newer, or set JAVA_HOME to its folder."


def find_java() -> Path:
    """Return the path of the program ``java``: in JAVA_HOME if this variable is set, else on the
    PATH.

    Raises ``MistbowError`` if Java is missing or older than ``MIN_VERSION``.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise MistbowError(f"no Java was found {where}", hint=_HINT)
    version = _version(Path(found))
    if version < MIN_VERSION:
        raise MistbowError(f"{found} is Java {version}, older than {MIN_VERSION}", hint=_HINT)
    return Path(found)


def archive_path(folder: Path, program: str, java: Path, facts: str) -> Path:
    """Return the path of the class archive of a Java program, such as ``spark``; it may not exist.

    ``facts``: further facts on which the archive depends, besides the installation of Java.
    """
    java = java.resolve()
    digest = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {facts}".encode()).hexdigest()
    return folder / f"{program}-{digest[:12]}.jsa"


def replace_class_archive(archive: Path, recorded: Path) -> None:
    """Put a recorded class archive in the place of the former archives of its program."""
    program = archive.name.partition("-")[0]
    for old in archive.parent.glob(f"{program}-*.jsa"):
        # Another process may remove it at the same time.
        old.unlink(missing_ok=True)
    recorded.replace(archive)


def _version(java: Path) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if match is None:
        raise MistbowError(f"{java} -version prints no version", hint=_HINT, details=answer.stderr)
    return int(match[1])
