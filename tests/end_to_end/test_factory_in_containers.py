"""The factory with unequal machines in containers: results are right while a machine is busy."""

from collections.abc import Iterator

import pytest

from tests.support.emulated_fogs import NEED_IMAGE, EmulatedFog, running_fog
from tests.support.fog_scenarios import FACTORY, FACTORY_INSIGHTS

pytestmark = NEED_IMAGE


@pytest.fixture(scope="module")
def factory(containers: None) -> Iterator[EmulatedFog]:
    with running_fog(FACTORY, "test-factory") as factory:
        yield factory


def test_results_equal_the_oracle_s_while_the_server_is_busy(factory: EmulatedFog) -> None:
    factory.check_scenario("busy-server", FACTORY_INSIGHTS)
