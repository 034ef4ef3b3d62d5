"""Each scenario of each file in containers, for minutes: results equal the oracle's.

``MISTBOW_SCENARIO_S`` is the least time (s) for which a fog runs and results are compared; ``make
scenarios MINUTES=5`` sets it.
"""

import os
import sys

import pytest

from tests.support.emulated_fogs import NEED_IMAGE
from tests.support.fog_scenarios import SCENARIOS, FogScenario

SECONDS = float(os.environ.get("MISTBOW_SCENARIO_S", "300"))


pytestmark = [*NEED_IMAGE, pytest.mark.soak, pytest.mark.timeout(SECONDS + 900)]


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.file}-{each.name}")
def test_results_equal_the_oracle_s_for_minutes(scenario: FogScenario) -> None:
    with scenario.running(f"test-{scenario.name}") as fog:
        compared = fog.check_scenario(scenario.name, scenario.insights, at_least_s=SECONDS)
    print(f"{scenario.file} {scenario.name}: {compared} results equal", file=sys.stderr)
