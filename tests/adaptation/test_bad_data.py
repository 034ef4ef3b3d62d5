"""A placement that follows the quality of the data of two sites, by real workers."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from analytics.insight_models import Decision, FragmentCostModel
from analytics_enabler.execution import demand_estimates
from mistbow.clock import system_clock
from tests.adaptation.deployment import FOLLOW_MS, Deploy
from tests.adaptation.fog import HUB, WORKERS, AdaptiveFog
from tests.adaptation.pumps import METRIC, POINTS_PER_S, Pumps, running_pumps
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.conditions import eventually

pytestmark = [pytest.mark.soak, pytest.mark.alone, pytest.mark.timeout(600)]

TEXT = f"mean = COMPUTE AVG({METRIC}, 4 SECONDS) BY entityID EVERY 2 SECONDS"
QUERY = (
    TEXT.replace(" EVERY", f" WHEN site != '{HUB}' EVERY")
    + " WITH SCHEDULER=quality(beta=100, horizon_s=1200)"
)
DELAY_S, DELAY_MS = 0.1, 80
"""The delay of the links of both workers, beside which their differences are small."""

MIN_RATE = 0.9
CHECKED = 0.3
"""The share of its points that a node can check if it also runs the fragments that can move."""


@pytest.fixture
def pumps(fog: AdaptiveFog) -> Iterator[Pumps]:
    for name in WORKERS:
        fog.links[name].delay_s = DELAY_S
    try:
        with running_pumps({name: fog.sites[name] for name in WORKERS}) as running:
            yield running
    finally:
        for name in WORKERS:
            fog.links[name].delay_s = 0.0
            fog.declare(name, node_cores_free=-1)


def test_merge_leaves_the_node_whose_data_become_incomplete(
    fog: AdaptiveFog, pumps: Pumps, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge takes cores that checks need; so it runs where the data are better.

    So does the fragment of the hub, whose points are read over the network.
    """
    # The demands are estimates, so what remains for checks does not vary.
    monkeypatch.setattr(demand_estimates, "MIN_SPAN_S", 1e9)
    eventually(lambda: links_are_slow(fog), timeout=120, what="the links are equally slow")
    deployed = fog.enabler.submit(QUERY).deployment_id
    deploy.ids.append(deployed)
    await_merge(fog, deployed)
    leave_cores_for_checks(fog)
    eventually(lambda: accuracies(fog, 0.9, 1.0) == set(WORKERS), timeout=150, what="good data")
    first, changed_at = await_merge(fog, deployed), system_clock()
    pumps.bad = frozenset({first})
    second = await_merge(fog, deployed, former=first)
    [move] = [each for each in merge_moves(fog, deployed) if each.at > changed_at]
    print(f"moved {move.at - changed_at} ms after the change: {move.what}")
    assert move.what.endswith(f"merge from {first} to {second}")
    assert "hot spot" not in move.why
    assert move.at - changed_at <= FOLLOW_MS
    assert accuracies(fog, 0.0, 0.8) == {first}
    check_results(fog, deployed)


def links_are_slow(fog: AdaptiveFog) -> bool:
    """Return whether the snapshot has the delays of both workers' links."""
    links = [each for each in fog.enabler.fog().links if {each.source, each.target} == {*WORKERS}]
    return len(links) == len(WORKERS) and all(each.latency_ms > DELAY_MS for each in links)


def leave_cores_for_checks(fog: AdaptiveFog) -> None:
    """Declare free cores of both nodes, and wait until the snapshot has them."""
    costs = eventually(lambda: known_costs(fog), timeout=120, what="the rates are known")
    assert costs is not None
    cores = {name: each.cores or 0.0 for name, each in costs.items()}
    free = {}
    for name in WORKERS:
        checks = (costs[name].check_core_s or 0.0) * POINTS_PER_S
        free[name] = round(cores[name] + cores["merge"] + cores[HUB] + CHECKED * checks, 4)
        fog.declare(name, node_cores_free=free[name])
    print(f"cores: {cores}; free: {free}")

    def are_known() -> bool:
        return {each.name: each.cores_free for each in fog.enabler.fog().nodes} == free

    eventually(are_known, timeout=60, what="the declared cores are in the snapshot")


def known_costs(fog: AdaptiveFog) -> dict[str, FragmentCostModel] | None:
    """Return the costs of the merge, and of the fragment of each site; None: not known yet."""
    costs = {}
    for each in fog.enabler.explain(QUERY).groups[0].fragments:
        name = each.sources[0].split("/")[0] if each.kind == "partial" else each.kind
        if each.estimated is not None:
            costs[name] = each.estimated
    rates = [(costs[name].points_per_s or 0.0) / POINTS_PER_S for name in WORKERS]
    return costs if min(rates) > MIN_RATE else None


def accuracies(fog: AdaptiveFog, least: float, most: float) -> set[str]:
    """Return the sites whose data have an accuracy within these limits."""
    known = {each.site: each.accuracy for each in fog.enabler.fog().sources}
    return {site for site, each in known.items() if each is not None and least <= each <= most}


def await_merge(fog: AdaptiveFog, deployment: str, former: str | None = None) -> str:
    """Wait until a merge runs elsewhere than on ``former``; return its worker."""
    group = fog.enabler.show(deployment).insights[0].group

    def node() -> str | None:
        for each in fog.enabler.placements().placements:
            if each.group == group and each.kind == "merge" and each.node not in (None, former):
                running = fog.workers[each.node].list()
                if any(r.id == each.fragment and r.state == "running" for r in running):
                    return each.node
        return None

    return eventually(node, timeout=180, what=f"a merge runs elsewhere than on {former}") or ""


def merge_moves(fog: AdaptiveFog, deployment: str) -> list[Decision]:
    """Return the moves of the merge of a deployment."""
    group = fog.enabler.show(deployment).insights[0].group
    return [
        each
        for each in fog.enabler.decisions()
        if each.kind == "fragment_moved" and each.subject == group and "merge" in each.what
    ]


def check_results(fog: AdaptiveFog, deployment: str) -> None:
    """Wait until all results up to now equal the oracle's."""
    until = system_clock() // 2000 * 2000
    since = fog.enabler.show(deployment).insights[0].since

    def equal() -> bool:
        tables = [stored_points(fog.sites[name], METRIC) for name in WORKERS]
        right = expected_values(TEXT, pa.concat_tables(tables), since, until)
        stored = fog.enabler.results(deployment, limit=100_000, end=until).results
        found = {(r.insight, compact_key(r.key), r.ts): r.value for r in stored}
        assert found.keys() == right.keys()
        assert found == pytest.approx(right)
        return len(right) > 5

    eventually(equal, timeout=150, pause=1.0, what="the results equal the oracle's")
