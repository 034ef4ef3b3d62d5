"""The insights that ``mistbow run`` deploys, on a real enabler."""

import threading
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from deploy import compose
from fog_emulation.fog_trust import FogTrust, NodeTrust
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from suite.example_insights import follow_results
from tests.analytics_enabler.conftest import SharedSite
from tests.support.conditions import eventually


def test_showcase_does_not_redeploy_deleted_insight(
    shared_site: SharedSite, tmp_path: Path
) -> None:
    file = tmp_path / "showcase.insights"
    file.write_text("busy = COMPUTE AVG(cpu) EVERY 1 s", encoding="utf-8")
    enabler = EnablerClient(shared_site.enabler)

    def deployed() -> list[str]:
        return [d.deployment_id for d in enabler.list() if d.name == "showcase"]

    following = threading.Thread(
        target=lambda: list(follow_results(enabler, file, threading.Event())), daemon=True
    )
    following.start()
    (deployment_id,) = eventually(deployed)
    enabler.delete(deployment_id)
    following.join(20)
    assert not following.is_alive()
    assert deployed() == []


def test_showcase_retains_amendment_made_during_start(
    shared_site: SharedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, trust = tmp_path / "fog.insights", FogTrust(tmp_path / "trust")
    file.write_text("busy = COMPUTE AVG(cpu) EVERY 1 s")
    # The enabler of this test asks for no token.
    trust.files(NodeTrust(compose.CORE, ("enabler",), ("*",)))
    monkeypatch.setattr(compose, "INSIGHTS", file)
    monkeypatch.setattr(compose, "TRUST", trust)
    monkeypatch.setattr(compose, "PORT", urlsplit(shared_site.enabler).port)
    enabler, agent = EnablerClient(shared_site.enabler), AgentClient(shared_site.agent)
    messages: list[str] = []
    waiting = threading.Thread(
        target=lambda: compose._show_first_results(messages.append, False), daemon=True
    )
    waiting.start()
    (deployed,) = eventually(lambda: [d for d in enabler.list() if d.name == "fog"])
    amended = "busy = COMPUTE MAX(cpu) EVERY 1 s"
    enabler.amend(deployed.deployment_id, amended, name="fog")
    (insight,) = enabler.show(deployed.deployment_id).insights
    row = {"insight": insight.uid, "key": "{}", "ts": insight.first_tick, "value": 1.5}
    rows = [{**row, "revision": 0, "computed_at": insight.first_tick}]
    agent.create_stream("results/all.fair", RESULT_ROWS)
    agent.append("results/all.fair", pa.RecordBatch.from_pylist(rows, schema=RESULT_ROWS))
    waiting.join(20)
    assert not waiting.is_alive()
    assert len(messages) == 1
    assert enabler.show(deployed.deployment_id).queries == amended
