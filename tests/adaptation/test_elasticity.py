"""Four times the load for five minutes, and back: insights spread over more workers, then fewer."""

import os
import time
from collections.abc import Iterator

import pytest

from mistbow.clock import system_clock
from tests.adaptation.deployment import FOLLOW_MS, Deploy, Deployment
from tests.adaptation.fog import HUB, WORKERS, AdaptiveFog
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.soak, pytest.mark.alone, pytest.mark.timeout(1500)]

METRIC = "pulse"
STEP_MS = 5000
PANES = 4
INSIGHTS = 3
RATE, FACTOR = 500, 4
LOADED_S = int(os.environ.get("MISTBOW_LOADED_S", "300"))
MAX_LAG_MS = 2 * STEP_MS
FREE = 1.7
"""The free cores of a worker, relative to what all insights need at the usual load."""

MEDIANS = " + ".join(
    f"MEDIAN({METRIC} WHEN < {200 + number}, 30 SECONDS)" for number in range(PANES)
)
"""Different panes with all points: so four times the points need much more CPU time."""

TEXT = f"sum = COMPUTE {MEDIANS} EVERY 5 SECONDS"


@pytest.fixture
def far_west(fog: AdaptiveFog) -> Iterator[None]:
    """Delay the link of one worker, so that all insights prefer the other one."""
    fog.links["west"].delay_s = 0.3
    yield
    fog.links["west"].delay_s = 0.0
    for name in WORKERS:
        fog.declare(name, node_cores_free=-1)


@pytest.mark.usefixtures("far_west")
def test_insights_spread_under_load_and_return(fog: AdaptiveFog, deploy: Deploy) -> None:
    eventually(lambda: is_far(fog, "west"), timeout=120, what="the delay is in the snapshot")
    with Sender(fog.sites[HUB].url, traffic(RATE)):
        running = [
            deploy(f"latency(margin=0.{number})", TEXT, METRIC) for number in range(1, INSIGHTS + 1)
        ]
        assert nodes_of(running) == {"east"}
        usual = eventually(lambda: cores_of(fog), timeout=300, what="all insights are measured")
        assert usual is not None
        for name in WORKERS:
            fog.declare(name, node_cores_free=round(FREE * usual, 3))
        with Sender(fog.sites[HUB].url, traffic((FACTOR - 1) * RATE)):
            changed_at = system_clock()
            lags, spread_at = load(fog, running)
        print(f"cores: {usual}; spread after {spread_at - changed_at} ms; lag: {max(lags)} ms")
        assert spread_at - changed_at <= FOLLOW_MS
        assert max(lags) <= MAX_LAG_MS
        eased_at = system_clock()
        eventually(lambda: nodes_of(running) == {"east"}, timeout=240, what="all have returned")
        returned_at = max(move.at for each in running for move in each.moves)
        print(f"returned after {returned_at - eased_at} ms")
    for each in running:
        assert_explained(each)
        assert_without_gap(each)
    kinds = [each.kind for each in fog.enabler.decisions() if each.subject == "east"]
    assert kinds[-2:] == ["hotspot_found", "hotspot_ended"]


def traffic(rate: int) -> Traffic:
    return Traffic(metrics=(METRIC,), entities=("a", "b", "c", "d"), rate=rate)


def is_far(fog: AdaptiveFog, site: str) -> bool:
    links = fog.enabler.fog().links
    found = [each.latency_ms for each in links if (each.source, each.target) == (HUB, site)]
    return bool(found) and found[0] > 200


def cores_of(fog: AdaptiveFog) -> float | None:
    """Return the cores that all insights take, as measured; None: not all are measured."""
    cores = []
    for number in range(1, INSIGHTS + 1):
        chosen = TEXT.replace(" EVERY", f" WHEN site == '{HUB}' EVERY")
        groups = fog.enabler.explain(f"{chosen} WITH SCHEDULER=latency(margin=0.{number})").groups
        measured = groups[0].fragments[0].measured
        cores.append(None if measured is None else measured.cores)
    known = [each for each in cores if each]
    return sum(known) if len(known) == len(cores) else None


def nodes_of(running: list[Deployment]) -> set[str | None]:
    return {each.fog.node_of(each.id) for each in running}


def load(fog: AdaptiveFog, running: list[Deployment]) -> tuple[list[int], int]:
    """Observe the lags (ms) during the load; return them, and when several workers ran them."""
    lags, spread_at, end = [0], 0, time.monotonic() + LOADED_S
    while time.monotonic() < end:
        lags += [each.lag_ms for worker in fog.workers.values() for each in worker.list()]
        if not spread_at and nodes_of(running) == set(WORKERS):
            spread_at = system_clock()
        time.sleep(1)
    assert spread_at, "the insights stayed on one worker"
    return lags, spread_at


def assert_explained(each: Deployment) -> None:
    for move in each.moves:
        hot, cool = "the worker east is a hot spot", "the worker east has had free capacity"
        assert move.why.startswith((hot, cool))


def assert_without_gap(each: Deployment) -> None:
    since = each.fog.enabler.show(each.id).insights[0].since
    until = system_clock() // STEP_MS * STEP_MS - 2 * STEP_MS
    found = each.fog.enabler.results(each.id, limit=100_000, end=until).results
    ticks = sorted({result.ts for result in found})
    assert ticks == list(range(ticks[0], until + 1, STEP_MS))
    assert ticks[0] - since <= 2 * STEP_MS
