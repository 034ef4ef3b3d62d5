"""Finding the Java that Ignite and Spark run on."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from mistbow.errors import MistbowError

LEAST_VERSION = 17
_HINT = f"install Java {LEAST_VERSION} or newer, or point JAVA_HOME at one"


def find_java() -> Path:
    """Return the ``java`` of JAVA_HOME or of the PATH.

    Raises ``MistbowError`` when there is none or it is older than ``LEAST_VERSION``.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise MistbowError(f"there is no java {where}", hint=_HINT)
    version = _version(Path(found))
    if version < LEAST_VERSION:
        raise MistbowError(f"{found} is Java {version}, too old", hint=_HINT)
    return Path(found)


def _version(java: Path) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if match is None:
        raise MistbowError(f"{java} does not tell its version", hint=_HINT, details=answer.stderr)
    return int(match[1])
