"""The Java installation that Ignite and Spark run on."""

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
        raise MistbowError(f"no java found {where}", hint=_HINT)
    version = _version(Path(found))
    if version < MIN_VERSION:
        raise MistbowError(f"{found} is Java {version}, older than {MIN_VERSION}", hint=_HINT)
    return Path(found)


def _version(java: Path) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if match is None:
        raise MistbowError(f"{java} -version prints no version", hint=_HINT, details=answer.stderr)
    return int(match[1])
