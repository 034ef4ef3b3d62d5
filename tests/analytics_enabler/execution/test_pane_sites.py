"""The sites that store panes, as workers come and go."""

import pytest

from analytics_enabler.execution.group_placements import GroupPlacement
from analytics_enabler.execution.pane_sites import must_move_panes, pane_sites
from analytics_enabler.fabric_view import WorkerlessSites
from analytics_enabler.groups import Group

SITES = ("cloud", "edge", "tram")


def placement(**panes: str) -> GroupPlacement:
    group = Group(scope=None, scheduler="fair")
    return GroupPlacement(group=group, sites=SITES, pane_sites=panes)


def without(
    *sites: str, long: tuple[str, ...] = (), confined: tuple[str, ...] = ()
) -> WorkerlessSites:
    return WorkerlessSites(frozenset(sites), frozenset(long), frozenset(confined))


def test_new_version_stores_panes_of_sites_without_worker_at_the_site_of_the_results() -> None:
    assert pane_sites(None, SITES, "cloud", without("edge")) == {"edge": "cloud"}
    assert pane_sites(None, SITES, "cloud", without()) == {}
    # The site of the results stores its own panes, with or without a worker.
    assert pane_sites(None, SITES, "cloud", without("cloud")) == {}


def test_panes_of_a_running_version_stay_where_they_are() -> None:
    former = placement(edge="cloud")
    for workerless in (without(), without("edge"), without("tram")):
        assert pane_sites(former, SITES, "cloud", workerless) == {"edge": "cloud"}


def test_new_site_without_worker_joins_a_running_version() -> None:
    found = pane_sites(placement(edge="cloud"), (*SITES, "bus"), "cloud", without("bus", "tram"))
    assert found == {"edge": "cloud", "bus": "cloud"}


@pytest.mark.parametrize(
    ("panes", "workerless", "own_site", "moves"),
    [
        ({}, without("edge"), "cloud", False),
        ({}, without("edge", long=("edge",)), "cloud", True),
        ({"edge": "cloud"}, without("edge", long=("edge",)), "cloud", False),
        ({}, without("cloud", long=("cloud",)), "cloud", False),
        ({}, without("elsewhere", long=("elsewhere",)), "cloud", False),
        ({"edge": "cloud"}, without("edge"), "tram", True),
        ({"edge": "cloud"}, without(), "cloud", False),
        ({"edge": "cloud"}, without(confined=("tram", "cloud")), "cloud", False),
        ({"edge": "cloud"}, without(confined=("edge",)), "cloud", True),
    ],
)
def test_panes_move_if_their_site_cannot_stay(
    panes: dict[str, str], workerless: WorkerlessSites, own_site: str, moves: bool
) -> None:
    assert must_move_panes(placement(**panes), own_site, workerless) is moves
