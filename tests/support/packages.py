"""Packages that tests install for their process and its children."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(package: Path, folder: Path) -> None:
    """Install a local package into a folder by pip, without downloads."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    here = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*pip, *here, str(package)], check=True)


def declare(folder: Path, group: str, entries: Mapping[str, str]) -> None:
    """Write the metadata of a package, with entry points for the modules in a folder."""
    metadata = folder / "declared-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


def make_importable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the packages of a folder to the import path for a test."""
    monkeypatch.syspath_prepend(folder)
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
