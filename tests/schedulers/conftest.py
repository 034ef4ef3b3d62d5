import os
import subprocess
import sys
from pathlib import Path

import pytest

# A package to install, not tests.
collect_ignore = ["third_party"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the schedulers of another package are installed."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    here = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    package = Path(__file__).parent / "third_party"
    subprocess.run([*pip, *here, str(package)], check=True)
    return folder


@pytest.fixture
def third_party(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the other package's schedulers known to this process and to those it starts."""
    monkeypatch.syspath_prepend(installed)
    path = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
