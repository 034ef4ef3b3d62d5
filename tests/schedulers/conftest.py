from pathlib import Path

import pytest

from tests.support.packages import install, make_known

# A package to install, not tests.
collect_ignore = ["third_party"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the schedulers of another package are installed."""
    folder = tmp_path_factory.mktemp("installed")
    install(Path(__file__).parent / "third_party", folder)
    return folder


@pytest.fixture
def third_party(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the other package's schedulers known to this process and to those it starts."""
    make_known(installed, monkeypatch)
