"""Builds the image ``mistbow``; all parts are gathered before the build, which needs no network.

The image contains the Python packages that Mistbow needs to run, in the versions and with the
checksums in ``requirements.lock``, for the Python version of the base image.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

from deploy.built_images import BuiltImages
from ignite_server.jars import ensure_jars, required_jars
from ignite_server.settings import IgniteSettings
from mistbow.errors import InvalidRequestError

ROOT = Path(__file__).parent.parent
CHOSEN = os.environ.get("MISTBOW_IMAGE", "")
"""The image that the operator has chosen for the containers; empty: none."""

NAME = CHOSEN or "mistbow"
BASE = "python:3.12-slim-bookworm"
"""The base of the first build of an image, if the operator names none."""

LABEL = "mistbow.image"
SOURCES = "mistbow.sources"
"""The label with the digest of an image's sources."""

ROLES = ("storage", "worker", "enabler")
"""The targets of the Dockerfile for single services; the enabler's has the monitoring agent too."""

BASE_LABEL = "mistbow.base"
"""The label with the name of the base image."""

_PARTS = ROOT / ".mistbow" / "image"
_LOCK = ROOT / ".mistbow" / "image.lock"
BUILT = BuiltImages(ROOT / ".mistbow" / "built_images.json")
_NEWEST_GLIBC_MINOR = 36  # Debian bookworm's
_ABOUT_BASE = "import platform; print(platform.python_version(), platform.machine())"

_IMAGE_FILES = (
    "Dockerfile", "pyproject.toml", "requirements.lock", "deploy/entrypoint.py", "deploy/health.py",
    "deploy/image.py",
)  # fmt: skip

# The packages that build PySpark, the only package that is published as source only.
_BUILDERS = ("setuptools", "wheel")


def build(base: str | None, console: Console, roles: Sequence[str] = ("all",)) -> None:
    """Build images on a base image that has Python 3.11 or newer.

    ``base``: None: the base on which these images were built before; see ``base_of_build``.
    ``roles``: the targets of the Dockerfile; see ``name_of_role``. If another build is running,
    wait until the other build has ended.
    """
    names = {role: NAME if role == "all" else name_of_role(NAME, role) for role in roles}
    with while_none_is_built():
        former = map(_labels, dict.fromkeys((*names.values(), NAME)))
        _build(base_of_build(base, former), console, names)


def base_of_build(base: str | None, former: Iterable[Mapping[str, str]]) -> str:
    """Return the base of a build: the requested one, or the former one, or else ``BASE``.

    ``base``: the requested base; None: none. ``former``: the labels of each former image.
    """
    return base or next((each[BASE_LABEL] for each in former if BASE_LABEL in each), BASE)


@contextmanager
def while_none_is_built() -> Iterator[None]:
    """Prevent other builds of the image in this folder inside the ``with`` block.

    Other builds wait until the block ends.
    """
    _LOCK.parent.mkdir(parents=True, exist_ok=True)
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(base: str, console: Console, names: Mapping[str, str]) -> None:
    version, machine = _run("docker", "run", "--rm", base, "python3", "-c", _ABOUT_BASE).split()
    console.print(f"the base {base} has Python {version}", highlight=False)
    _PARTS.mkdir(parents=True, exist_ok=True)
    _gather_packages(version, machine)
    _gather_rest(console)
    labels = {SOURCES: digest_of_sources(), BASE_LABEL: base}
    options = ["--build-arg", f"BASE={base}"]
    for label, value in labels.items():
        options += ["--label", f"{label}={value}"]
    for role, name in names.items():
        command = ("docker", "build", "--target", role, "--tag", name, *options, ".")
        subprocess.run(command, cwd=ROOT, check=True)
        BUILT.add(name, _run("docker", "image", "inspect", "--format", "{{.Id}}", name).strip())


def name_of_role(name: str, role: str) -> str:
    """Return the name of the image of a role; the role stands before the tag.

    Raises ``InvalidRequestError`` if the name contains a digest, which only one image can have.

    >>> name_of_role("registry:5000/mistbow:1.0", "worker"), name_of_role("mistbow", "storage")
    ('registry:5000/mistbow-worker:1.0', 'mistbow-storage')
    """
    if "@" in name:
        raise InvalidRequestError(
            f"{name} contains a digest, so no image can be built under this name",
            hint="Set MISTBOW_IMAGE to a name with a tag, or without one.",
        )
    repository, slash, last = name.rpartition("/")
    image, colon, tag = last.partition(":")
    return f"{repository}{slash}{image}-{role}{colon}{tag}"


def digest_of_sources(root: Path = ROOT) -> str:
    """Return the SHA-256 of the files from which an image is built; ``root``: their folder."""
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    files = [root / name for name in _IMAGE_FILES]
    for package in wheel["targets"]["wheel"]["packages"]:
        files += [each for each in (root / package).rglob("*") if each.is_file()]
    digest = hashlib.sha256()
    for file in sorted(files):
        if "__pycache__" in file.parts:
            continue
        name, content = str(file.relative_to(root)), file.read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def locked(lock: str, required: frozenset[str], python: str) -> Iterator[str]:
    """Yield the lines of a lock file that concern required packages.

    ``lock``: the text of the lock file. ``required``: the names of these packages. ``python``: the
    Python version, for which the lines apply on Linux.
    """
    environment = _environment(python)
    keep = False
    for line in lock.splitlines():
        if re.match(r"\w", line):
            requirement = Requirement(line.rstrip("\\ "))
            keep = canonicalize_name(requirement.name) in required and (
                requirement.marker is None or requirement.marker.evaluate(environment)
            )
            # pip would judge the marker by the Python that it runs on itself.
            line = f"{requirement.name}{requirement.specifier} \\"
        if keep and not line.lstrip().startswith("#"):
            yield line


def needed(python: str) -> frozenset[str]:
    """Return the names of all packages that Mistbow needs to run with the Python version
    ``python``.

    Packages for development are not included.
    """
    environment = _environment(python)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [(Requirement(text), "") for text in project["dependencies"]]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        marker = requirement.marker
        if marker is not None and not marker.evaluate({**environment, "extra": extra}):
            continue
        found.add(canonicalize_name(requirement.name))
        dependencies = {(requirement.name, each) for each in ("", *requirement.extras)} - seen
        seen |= dependencies
        children = distribution(requirement.name).requires or () if dependencies else ()
        waiting += [(Requirement(text), each) for text in children for _, each in dependencies]
    return frozenset(found)


def _environment(python: str) -> Mapping[str, str]:
    return {
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
    }


def _gather_packages(python: str, machine: str) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    requirements = _PARTS / "requirements.txt"
    requirements.write_text("\n".join(locked(lock, needed(python), python)) + "\n")
    glibc = [f"manylinux_2_{minor}_{machine}" for minor in range(5, _NEWEST_GLIBC_MINOR + 1)]
    platforms = [f"manylinux1_{machine}", f"manylinux2014_{machine}", *glibc]
    where = ("--dest", str(_PARTS / "wheels"), "--no-deps", "--quiet")
    _pip(
        *("download", *where, "--require-hashes", "--requirement", str(requirements)),
        *("--python-version", python),
        *(f"--platform={platform}" for platform in platforms),
    )
    _pip("download", *where, *_BUILDERS)


def _gather_rest(console: Console) -> None:
    for name in ("app", "jars"):
        shutil.rmtree(_PARTS / name, ignore_errors=True)
        (_PARTS / name).mkdir()
        (_PARTS / name).chmod(0o755)
    where = ("--wheel-dir", str(_PARTS / "app"))
    _pip("wheel", *where, "--no-deps", "--no-build-isolation", "--quiet", str(ROOT))
    jars = IgniteSettings().jars_folder
    ensure_jars(jars, console)
    for name in required_jars():
        # Only its owner can read a jar in a home; in the image, all users can.
        shutil.copyfile(jars / name, _PARTS / "jars" / name).chmod(0o644)
    for script in ("entrypoint.py", "health.py"):
        shutil.copy2(ROOT / "deploy" / script, _PARTS)


def _labels(name: str) -> Mapping[str, str]:
    """Return the labels of an image; empty: it has none, or is not on this machine."""
    command = ("docker", "image", "inspect", "--format", "{{json .Config.Labels}}", name)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, str] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found or {}


def _pip(*arguments: str) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    subprocess.run((*pip, *arguments), cwd=ROOT, check=True)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
