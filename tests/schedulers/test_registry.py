import re
from pathlib import Path

import pytest

from mistbow.errors import InvalidRequestError
from mistbow.fog.jobs import Placement
from mistbow.schedulers.fair import Fair
from mistbow.schedulers.latency import Latency
from mistbow.schedulers.registry import load
from mistbow.schedulers.validity import faults
from tests.schedulers import build

PAGE = Path(__file__).parents[2] / "docs" / "schedulers.md"


def test_the_built_in_ones_are_there() -> None:
    assert isinstance(load("fair"), Fair)
    assert isinstance(load("latency"), Latency)


def test_a_name_that_two_packages_give_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[mistbow.schedulers]\nfair = other:Unfair\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"several: mistbow.*:Fair, other:Unfair"):
        load("fair")


def test_the_documents_example_works() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    room: dict = {}
    exec(example, room)  # noqa: S102 - from our own page
    scheduler = room["Cloud"]()
    scheduler.prepare({})
    jobs = (build.over_sites("q", "edge1", "cloud"), build.job("r", build.task("t")))
    decision = scheduler.schedule(jobs, build.city(), Placement())
    assert faults(decision, jobs, build.city()) == []
    assert {at.node for at in decision.placement.assignments} == {"cloud1"}
