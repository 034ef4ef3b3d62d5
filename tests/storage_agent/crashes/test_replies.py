"""Lost answers: the sender repeats its request, and nothing is stored twice."""

import pytest

from storage_agent.settings import AgentSettings
from tests.storage_agent.crashes.cutting_proxy import CuttingProxy
from tests.storage_agent.crashes.limits import CUT_REPLIES
from tests.storage_agent.crashes.load import Load
from tests.support.agents import running_agent
from tests.support.conditions import eventually


@pytest.mark.timeout(120 + CUT_REPLIES)
def test_cut_off_answers_lose_no_acknowledged_points(settings: AgentSettings) -> None:
    with running_agent(settings) as url, CuttingProxy(url) as proxy:
        # Patience without end: what was sent is acknowledged in the end, so all of it is stored.
        with Load(proxy.url, points=12, streams=4, patience=0) as load:
            eventually(lambda: proxy.cuts >= CUT_REPLIES, timeout=60 + CUT_REPLIES)
        assert set(load.ledger.acknowledged) == set(load.ledger.sent)
        items = load.check(url, within=60)
        print(f"{proxy.cuts} answers cut off, {items} points and rows are there")
