from pathlib import Path

import pytest

from tests.support.packages import install, make_importable

# A package to install, without tests.
collect_ignore = ["third_party"]


@pytest.fixture(scope="session")
def installed(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the schedulers of another package into a folder; return the folder."""
    folder = tmp_path_factory.mktemp("installed")
    install(Path(__file__).parent / "third_party", folder)
    return folder


@pytest.fixture
def third_party(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the installed schedulers importable in this process and its children."""
    make_importable(installed, monkeypatch)
