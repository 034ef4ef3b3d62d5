from pathlib import Path

import pytest

from analytics_enabler.scheduling.builtin.cost import Cost
from analytics_enabler.scheduling.builtin.energy import Energy
from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.builtin.quality import Quality
from analytics_enabler.scheduling.registry import load_scheduler
from mistbow.errors import InvalidRequestError

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        ("fair", Fair),
        ("latency", Latency),
        ("energy", Energy),
        ("cost", Cost),
        ("quality", Quality),
    ],
)
def test_built_in_scheduler_is_installed(name: str, scheduler: type) -> None:
    assert isinstance(load_scheduler(name), scheduler)


def test_scheduler_of_two_packages_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[mistbow.schedulers]\nfair = other:Unfair\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InvalidRequestError, match=r"declared by several packages: .*:Fair, other:Unfair"
    ):
        load_scheduler("fair")
