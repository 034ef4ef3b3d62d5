from collections.abc import Iterator

import pytest

from analytics_enabler.scheduling.cost_model import model
from analytics_enabler.scheduling.driver import elasticity
from tests.adaptation.deployment import TRAFFIC, Deploy
from tests.adaptation.fog import HUB, AdaptiveFog, adaptive_fog
from tests.adaptation.pumps import CHECK_S
from tests.support.conditions import eventually
from tests.support.sender import Sender


@pytest.fixture(scope="package")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdaptiveFog]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elasticity, "HOT_MS", 2000)
        patch.setattr(elasticity, "COOL_MS", 5000)
        patch.setattr(model, "INITIAL_CHECK_S", CHECK_S)
        patch.setattr(model, "MIN_CHECKED", 10**9)
        with (
            adaptive_fog(tmp_path_factory.mktemp("fog")) as running,
            Sender(running.sites[HUB].url, TRAFFIC),
        ):
            yield running


@pytest.fixture
def deploy(fog: AdaptiveFog) -> Iterator[Deploy]:
    deployer = Deploy(fog)
    yield deployer
    for id in deployer.ids:
        fog.enabler.delete(id)
    eventually(
        lambda: not any(worker.list() for worker in fog.workers.values()),
        timeout=120,
        what="no fragment runs",
    )
