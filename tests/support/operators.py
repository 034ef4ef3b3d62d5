"""The operators of the example package, and faulty operators, installed for a test."""

import shutil
import tomllib
from pathlib import Path

import pytest

from analytics.operators.interface import GROUP
from tests.support import odd_operators
from tests.support.packages import declare, make_importable

EXAMPLE = Path(__file__).parents[2] / "examples" / "operators"


def install_example_operators(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example package for a test, without pip, which takes seconds."""
    for module in EXAMPLE.glob("*.py"):
        shutil.copy(module, folder)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    declare(folder, GROUP, project["entry-points"][GROUP])
    make_importable(folder, monkeypatch)


def install_odd_operators(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install faulty operators for a test: they raise, hang, exit, or are invalid."""
    shutil.copy(Path(odd_operators.__file__), folder)
    classes = [each for each in vars(odd_operators).values() if isinstance(each, type)]
    own = [each.__name__ for each in classes if each.__module__ == odd_operators.__name__]
    declare(folder, GROUP, {name: f"odd_operators:{name}" for name in own})
    make_importable(folder, monkeypatch)
