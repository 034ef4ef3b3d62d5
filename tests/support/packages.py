"""Packages of others, made known to this process and to those that it starts."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(package: Path, folder: Path) -> None:
    """Install a package that lies here into a folder, as pip does it; nothing is downloaded."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    here = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*pip, *here, str(package)], check=True)


def declare(folder: Path, group: str, entries: Mapping[str, str]) -> None:
    """Let modules in a folder be a package that declares these entry points."""
    told = folder / "declared-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in entries.items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


def make_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what is installed in a folder known while a test lasts."""
    monkeypatch.syspath_prepend(folder)
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
