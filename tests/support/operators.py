"""The operators of the example package, and odd ones, known while a test lasts."""

import shutil
import tomllib
from pathlib import Path

import pytest

from mistbow.operators.interface import GROUP
from tests.support import odd_operators
from tests.support.packages import declare, make_known

EXAMPLE = Path(__file__).parents[2] / "examples" / "operators"


def know_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the example package known without pip, which takes seconds."""
    shutil.copy(EXAMPLE / "robust_operators.py", folder)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    declare(folder, GROUP, project["entry-points"][GROUP])
    make_known(folder, monkeypatch)


def know_odd_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make known what raises, hangs, dies, or is no operator."""
    shutil.copy(Path(odd_operators.__file__), folder)
    classes = [each for each in vars(odd_operators).values() if isinstance(each, type)]
    own = [each.__name__ for each in classes if each.__module__ == odd_operators.__name__]
    declare(folder, GROUP, {name: f"odd_operators:{name}" for name in own})
    make_known(folder, monkeypatch)
