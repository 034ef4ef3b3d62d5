"""The estimated and the measured demand of a fragment that a worker with Spark runs."""

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import ExplainedFragment
from analytics_enabler.execution import demand_estimates, worker_reconcilers
from tests.analytics_enabler.live_site import NODE, LiveSite
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

TRAFFIC = Traffic(metrics=("load",), entities=("a", "b"), rate=100)
QUERY = "mean = COMPUTE AVG(load, 4 SECONDS) BY entityID EVERY 2 SECONDS"


def explained(enabler: EnablerClient) -> ExplainedFragment:
    [group] = enabler.explain(QUERY).groups
    [fragment] = group.fragments
    return fragment


@pytest.mark.soak
def test_worker_measures_what_enabler_has_estimated(
    live_site: LiveSite,
    live_enabler: EnablerClient,
    live_enabler_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_reconcilers, "START_S", 0.0)
    monkeypatch.setattr(demand_estimates, "MIN_SPAN_S", 15.0)
    with Sender(live_site.agent_url, TRAFFIC):
        live_enabler.submit(QUERY, name="measured")
        eventually(lambda: explained(live_enabler).measured, timeout=180, what="a measurement")
        [status] = live_site.worker.list()
        found = explained(live_enabler)
        eventually(
            lambda: live_enabler.fog().sources, timeout=180, what="the timeliness of the points"
        )
        [source] = live_enabler.fog().sources

        def metrics() -> str:
            text = httpx.get(f"{live_enabler_url}/metrics").text
            for kind in ("estimated", "measured"):
                assert f'mistbow_fragment_cores_{kind}{{id="{found.id}"}}' in text
            return text

        text = eventually(metrics, what="the metrics of the fragment")
    assert found.measured is not None
    assert found.measured.cores == pytest.approx(0.3, abs=0.29)
    assert found.measured.points_per_s == pytest.approx(TRAFFIC.rate, rel=0.4)
    assert found.measured.bytes_per_s == pytest.approx(2500, abs=2400)
    assert found.estimated is not None
    assert found.estimated.cores == pytest.approx(0.3, abs=0.29)
    assert source.timeliness == pytest.approx(1 - 1 / TRAFFIC.late_every, abs=0.05)
    assert status.cpu_s > 0
    assert status.rows_read > 0
    assert 'mistbow_cost_model_error_ratio{resource="cpu"}' in text


def test_worker_announces_its_stored_calibration(live_site: LiveSite) -> None:
    def speed() -> float | None:
        [site] = live_site.agent.fabric().sites
        [worker] = site.workers
        return worker.speed

    eventually(speed, what="the worker is calibrated")
    assert (live_site.home / f"calibration-{NODE}.json").is_file()
