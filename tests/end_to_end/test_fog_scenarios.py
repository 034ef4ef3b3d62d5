"""Each scenario of each file in containers, for minutes: results equal the oracle's.

``MISTBOW_SCENARIO_S`` is the least time (s) for which a fog runs and results are compared, and
``MISTBOW_SCENARIO_PAGE`` the page that lists the runs; ``make scenarios MINUTES=5`` sets both.
"""

import os
import sys
from contextlib import closing
from pathlib import Path

import docker  # type: ignore[import-untyped]
import pytest

from deploy import image
from mistbow.clock import utc_now
from tests.support.emulated_fogs import NEED_IMAGE
from tests.support.fog_scenarios import SCENARIOS, FogScenario
from tests.support.scenario_page import ScenarioRun, add_run

PAGE = os.environ.get("MISTBOW_SCENARIO_PAGE")
SECONDS = float(os.environ.get("MISTBOW_SCENARIO_S", "300"))


pytestmark = [*NEED_IMAGE, pytest.mark.soak, pytest.mark.timeout(SECONDS + 900)]


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.file}-{each.name}")
def test_results_equal_the_oracle_s_for_minutes(scenario: FogScenario) -> None:
    if PAGE is not None:
        with closing(docker.from_env()) as client:
            labels = client.images.get(image.NAME).labels
        assert labels[image.SOURCES] == image.digest_of_sources(), "first run: make images"
    with scenario.running(f"test-{scenario.name}") as fog:
        compared = fog.check_scenario(scenario.name, scenario.insights, at_least_s=SECONDS)
        sites = len(fog.file.sites)
    print(f"{scenario.file} {scenario.name}: {compared} results equal", file=sys.stderr)
    if PAGE is not None:
        date, minutes = f"{utc_now():%Y-%m-%d}", f"{SECONDS / 60:g}"
        run = ScenarioRun(scenario.file, scenario.name, date, str(sites), minutes, f"{compared:,}")
        add_run(Path(PAGE), run)
