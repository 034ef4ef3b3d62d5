"""The sites that store the panes of sites without a worker."""

from collections.abc import Sequence

from analytics_enabler.execution.group_placements import GroupPlacement
from analytics_enabler.fabric_view import WorkerlessSites


def must_move_panes(placement: GroupPlacement, own_site: str, workerless: WorkerlessSites) -> bool:
    """Return whether a group needs a new version of its partials, with panes at other sites.

    This is so if a site has had no worker for long but stores its own panes, if the workers of
    a site cannot write its panes elsewhere, or if the site of the results has changed.
    ``own_site``: the site of the results.
    """
    moved = placement.pane_sites
    stuck = {site for site in workerless.long if site in placement.sites and site != own_site}
    return (
        bool(stuck - moved.keys())
        or bool(workerless.confined & moved.keys())
        or any(site != own_site for site in moved.values())
    )


def pane_sites(
    former: GroupPlacement | None,
    sites: Sequence[str],
    own_site: str,
    workerless: WorkerlessSites,
) -> dict[str, str]:
    """Return site -> the site that stores its panes, for the sites that do not store their own.

    ``former``: the placement with the same version of the partials, whose panes stay where they
    are; None: the version is new.
    """
    retained = {} if former is None else former.pane_sites
    planned = () if former is None else former.sites
    new = {site for site in workerless.now if site not in planned and site != own_site}
    return {site: retained.get(site, own_site) for site in sites if site in {*retained, *new}}
