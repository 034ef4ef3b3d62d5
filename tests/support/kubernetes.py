"""Helm, built from its Go module, and the schemas of Kubernetes' API, from a package of PyPI.

Both are cached outside the repository, and used without a network from then on.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

HELM = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_SCHEMAS = (
    "kubernetes-validate==1.37.0 "
    "--hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9\n"
)
VERSIONS = ("v1.27.0", "v1.36.0")
"""The versions of Kubernetes whose schemas the manifests must satisfy: the oldest, and a recent."""

_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mistbow"
_BUILD_S = 900
_URI = "https://kubernetes.invalid/"


def helm() -> str:
    """Return the path of Helm, which is built at the first call; skip the test without Go."""
    built = _CACHE / "helm" / "helm"
    if built.exists():
        return str(built)
    if (found := shutil.which("helm")) is not None:
        return found
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("neither Helm nor Go is installed")
    built.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(built.parent)}
    done = subprocess.run((go, "install", HELM), env=environment, check=False, timeout=_BUILD_S)
    if done.returncode != 0:
        pytest.skip("Helm cannot be built here: its modules are not in reach")
    return str(built)


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
    """Return the folder of the schemas; skip the test if the package cannot be installed."""
    target = _CACHE / "kubernetes-schemas"
    folder = target / "kubernetes_validate" / "kubernetes-json-schema"
    if not folder.exists():
        target.mkdir(parents=True, exist_ok=True)
        (target / "requirements.txt").write_text(_SCHEMAS)
        argv = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes"]
        argv += ["--disable-pip-version-check", "--target", str(target)]
        argv += ["-r", str(target / "requirements.txt")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"the schemas of Kubernetes are not in reach: {done.stderr[-200:]}")
    return folder
