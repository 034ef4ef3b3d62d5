import re
from pathlib import Path

import pytest

from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.model.jobs import Placement
from analytics_enabler.scheduling.registry import load_scheduler
from analytics_enabler.scheduling.sandbox.validation import violations
from mistbow.errors import InvalidRequestError
from tests.analytics_enabler.scheduling import build

pytestmark = pytest.mark.usefixtures("processes")

PAGE = Path(__file__).parents[3] / "docs" / "schedulers.md"


def test_built_in_schedulers_are_installed() -> None:
    assert isinstance(load_scheduler("fair"), Fair)
    assert isinstance(load_scheduler("latency"), Latency)


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


def test_example_of_documentation_places_validly() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    namespace: dict = {}
    exec(example, namespace)  # noqa: S102 - from our own page
    scheduler = namespace["Cloud"]()
    scheduler.prepare({})
    jobs = (build.over_sites("q", "edge1", "cloud"), build.job("r", build.task("t")))
    decision = scheduler.schedule(jobs, build.city(), Placement())
    assert violations(decision, jobs, build.city()) == []
    assert {at.node for at in decision.placement.assignments} == {"cloud1"}
