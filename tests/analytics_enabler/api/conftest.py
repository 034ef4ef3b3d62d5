"""Enablers of a site whose worker has Spark, in place of one whose worker records fragments."""

import pytest

from mistbow.client.agent import AgentClient
from tests.analytics_enabler.conftest import SharedSite, active
from tests.analytics_enabler.live_site import LiveSite


@pytest.fixture
def shared_site(shared_live_site: SharedSite) -> SharedSite:
    return active(shared_live_site)


@pytest.fixture
def enabler_url(live_enabler_url: str) -> str:
    return live_enabler_url


@pytest.fixture
def agent(live_site: LiveSite) -> AgentClient:
    return live_site.agent
