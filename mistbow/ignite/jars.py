"""Ignite's jars: fetched by the Ivy that PySpark ships, and never used unless their sums agree."""

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
from mistbow.ignite.java import find_java

_HERE = Path(str(files("mistbow.ignite")))
_TRIES = 3


class JarError(MistbowError):
    """A jar is altered, unknown, or cannot be fetched."""

    code = "jar"


def wanted_jars() -> dict[str, str]:
    """Return the SHA-256 of each jar by file name, as listed in ``jars.sha256``."""
    lines = (_HERE / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def check_jars(folder: Path, wanted: Mapping[str, str]) -> set[str]:
    """Return the names of the wanted jars that ``folder`` lacks.

    Raises ``JarError`` when the folder holds a jar that is not wanted or whose sum differs.
    """
    present = {path.name for path in folder.glob("*.jar")}
    for name in sorted(present):
        path = folder / name
        if name not in wanted:
            raise JarError(f"unknown jar: {path}", hint="remove it; only Ignite's jars belong here")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != wanted[name]:
            raise JarError(
                f"altered jar: {path} has SHA-256 {digest}, not {wanted[name]}",
                hint="delete it to have it fetched again; if it comes back, distrust its source",
            )
    return set(wanted) - present


def ensure_jars(folder: Path, console: Console | None = None) -> None:
    """Check Ignite's jars in ``folder``, and fetch those that are missing, showing the progress."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = wanted_jars()
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if check_jars(folder, wanted):
            _fetch(folder, wanted, console or Console(stderr=True))


def _fetch(folder: Path, wanted: Mapping[str, str], console: Console) -> None:
    # Ivy's cache lives as long as the tries: kept longer, it would bring a bad jar back.
    with TemporaryDirectory(dir=folder.parent, prefix="ivy-") as name:
        cache, fetched = Path(name, "cache"), Path(name, "jars")
        for attempt in stamina.retry_context(on=_IvyError, attempts=_TRIES, timeout=None):
            with attempt:
                _run_ivy(cache, fetched, len(wanted), console)
        absent = check_jars(fetched, wanted)
        if absent:
            raise JarError(f"not fetched: {', '.join(sorted(absent))}")
        for path in fetched.glob("*.jar"):
            path.replace(folder / path.name)


class _IvyError(JarError):
    """Ivy ended with an error; trying again may help."""


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
            hint="is there a way to Maven Central from here?",
            details=list(tail),
        )


def _ivy_argv(cache: Path, into: Path) -> list[str]:
    # Without the first two, Ivy keeps its cache and its user folder in ~/.ivy2.
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
        raise JarError("PySpark's Ivy is not there", hint="install Mistbow's dependencies again")
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
