"""Fetches Ignite's jars by PySpark's Ivy, and checks their checksums."""

import fcntl
import hashlib
import importlib.util
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import stamina
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mistbow.errors import MistbowError
from mistbow.java import find_java

_HERE = Path(str(files("ignite_server")))
_TRIES = 3


class JarError(MistbowError):
    """A jar is altered, unknown, or cannot be fetched."""

    code = "jar"


def required_jars() -> dict[str, str]:
    """Return the required jars, as listed in ``jars.sha256``: file name -> SHA-256."""
    lines = (_HERE / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def check_jars(folder: Path, required: Mapping[str, str]) -> set[str]:
    """Return the names of the required jars that are missing in ``folder``.

    Raises ``JarError`` for a jar in ``folder`` that is not required, or whose checksum differs.
    """
    present = {path.name for path in folder.glob("*.jar")}
    for name in sorted(present):
        path = folder / name
        if name not in required:
            raise JarError(
                f"{path} is not a jar of Ignite (jars.sha256 does not list it)",
                hint="remove the file from the folder",
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != required[name]:
            raise JarError(
                f"{path} is altered: its SHA-256 is {digest}, not {required[name]}",
                hint="delete the file and run mistbow setup; if the error occurs again, do not "
                "trust the source of the file",
            )
    return set(required) - present


def ensure_jars(folder: Path, console: Console | None = None) -> None:
    """Check the jars in ``folder``, fetch missing jars, and show the progress on ``console``."""
    required = required_jars()
    # A complete folder is only checked, without the lock: the folders of an image are read-only.
    if not check_jars(folder, required):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if check_jars(folder, required):
            _fetch(folder, required, console or Console(stderr=True))


def _fetch(folder: Path, required: Mapping[str, str], console: Console) -> None:
    # Ivy's cache lives for these attempts only: otherwise it could return a damaged jar again.
    with TemporaryDirectory(dir=folder.parent, prefix="ivy-") as name:
        cache, fetched = Path(name, "cache"), Path(name, "jars")
        for attempt in stamina.retry_context(on=_IvyError, attempts=_TRIES, timeout=None):
            with attempt:
                _run_ivy(cache, fetched, len(required), console)
        absent = check_jars(fetched, required)
        if absent:
            raise JarError(f"Ivy did not fetch these jars: {', '.join(sorted(absent))}")
        for path in fetched.glob("*.jar"):
            path.replace(folder / path.name)


class _IvyError(JarError):
    """Ivy failed; a retry may succeed."""


def _run_ivy(cache: Path, into: Path, total: int, console: Console) -> None:
    tail: deque[str] = deque(maxlen=30)
    process = subprocess.Popen(
        _ivy_argv(cache, into), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process, _progress(console, total) as step:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            if "[SUCCESSFUL ]" in line:
                step()
    if process.returncode != 0:
        raise _IvyError(
            "Ivy could not fetch Ignite's jars",
            hint="check that this machine reaches Maven Central",
            details=list(tail),
        )


def _ivy_argv(cache: Path, into: Path) -> list[str]:
    # Without the first two flags, Ivy writes to ~/.ivy2.
    return [
        str(find_java()),
        f"-Divy.default.ivy.user.dir={cache.absolute()}",
        f"-Divy.home={cache.absolute()}",
        "-jar",
        str(_ivy_jar()),
        *("-cache", str(cache.absolute())),
        *("-settings", str(_HERE / "ivysettings.xml")),
        *("-ivy", str(_HERE / "ivy.xml")),
        *("-retrieve", f"{into.absolute()}/[artifact]-[revision].[ext]"),
    ]


def _ivy_jar() -> Path:
    # Found without importing PySpark, which takes a second.
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    jars = [jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar")]
    if not jars:
        raise JarError(
            "PySpark's Ivy is not installed", hint="install Mistbow's dependencies again"
        )
    return jars[0]


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[], None]]:
    columns = (
        TextColumn("Fetching Ignite's jars"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
