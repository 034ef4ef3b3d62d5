"""The placements of groups.

Each change is stored before it takes effect, so an enabler resumes the placements after a restart.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from analytics_enabler.fragments import PartialsVersion, Tasks, data_site
from analytics_enabler.groups import Group
from analytics_enabler.journal import EventJournal
from mistbow.clock import Clock

CHECKED_STEP = 0.1
"""The smallest change of a share of checked points that is sent to workers."""


class GroupPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The sites that a group reads, and the nodes that run its tasks.

    ``nodes``: task -> node. ``since``: task -> the time (ms) of its placement on this node; an
    enabler of an earlier version stored none. ``version``: the version of the group's partial
    fragments; None: the group runs as a single fragment at the only site that the group reads.
    ``pane_sites``: site -> the site that stores its panes, since the site itself has no worker;
    other sites store their own panes. ``checked``: task -> the share of its points whose quality is
    checked; other tasks check none.
    """

    group: Group
    version: PartialsVersion | None = None
    sites: tuple[str, ...]
    nodes: Mapping[str, str] = {}
    pane_sites: Mapping[str, str] = {}
    since: Mapping[str, int] = {}
    checked: Mapping[str, float] = {}

    def placed_on(
        self, nodes: Mapping[str, str], now: int, checked: Mapping[str, float] = {}
    ) -> "GroupPlacement":
        """Return the placement with other nodes; ``now``: the time (ms) for the changed tasks.

        ``checked``: the shares of checked points; small changes of a share are ignored.
        """
        shares = {
            task: self.checked[task] if _is_near(share, self.checked.get(task)) else share
            for task, share in checked.items()
            if task in nodes
        }
        stayed = {task for task, node in nodes.items() if self.nodes.get(task) == node}
        since = {task: at for task, at in self.since.items() if task in stayed}
        since |= dict.fromkeys(nodes.keys() - stayed, now)
        return msgspec.structs.replace(self, nodes=nodes, since=since, checked=shares)


def nodes_of(
    tasks: Tasks,
    placed: Mapping[str, str],
    current: Mapping[str, str],
    *,
    unreachable: Collection[str],
    drained: Collection[str],
    suspected: Collection[str],
) -> dict[str, str]:
    """Return the nodes of a group's tasks: the decided nodes, or the current ones that tasks keep.

    ``placed``: task -> node, as the schedulers have decided. ``current``: task -> the present node.
    ``unreachable``: sites; fragments over their points continue there, and do not move when such a
    site returns. ``drained``: nodes; a fragment stays there until another node has room for it.
    ``suspected``: nodes; a fragment stays there even if a scheduler moves it, because such a node
    may only be slow.
    """
    present = {task: node for task, node in current.items() if task in tasks}
    kept = {
        task: node
        for task, node in present.items()
        if node in drained or data_site(tasks[task]) in unreachable
    }
    waiting = {task: node for task, node in present.items() if node in suspected}
    return {**kept, **placed, **waiting}


def _is_near(share: float, former: float | None) -> bool:
    """Return whether the change of a share is too small to be sent; 0 and 1 are exact."""
    return former is not None and abs(share - former) < CHECKED_STEP and 0 < share < 1


def group_placement_from_json(text: str) -> GroupPlacement | None:
    """Decode the placement of a group from JSON; None (``null``): the group has ended."""
    placement: GroupPlacement | None = msgspec.json.decode(text, type=GroupPlacement | None)
    return placement


class GroupPlacements:
    """The placements of all groups."""

    def __init__(self, journal: EventJournal[GroupPlacement | None], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._by_id: dict[str, GroupPlacement] = {}

    async def refresh(self) -> None:
        """Read the stored events that have not been read yet."""
        for group, placement in await self._journal.unread():
            self._apply(group, placement)

    def reclaim(self) -> None:
        """Make the next ``refresh`` claim the stream's lease and read the stream from its start."""
        self._journal.reclaim()
        self._by_id.clear()

    def get(self, group: Group) -> GroupPlacement | None:
        """Return the placement of a group; None: the group has no placement."""
        return self._by_id.get(group.id)

    def all(self) -> list[GroupPlacement]:
        """Return the placements of all groups."""
        return list(self._by_id.values())

    def checked(self, group: Group) -> Mapping[str, float]:
        """Return task -> the share of its points whose quality is checked, for a group's tasks."""
        placement = self.get(group)
        return {} if placement is None else placement.checked

    def nodes(self) -> dict[str, Mapping[str, str]]:
        """Return the nodes of all tasks: group id -> task -> node."""
        return {group: placement.nodes for group, placement in self._by_id.items()}

    def by_group(self) -> dict[Group, Mapping[str, str]]:
        """Return the nodes of all tasks: group -> task -> node."""
        return {each.group: each.nodes for each in self._by_id.values()}

    async def store(self, placements: Iterable[GroupPlacement]) -> None:
        """Store the placements of groups that have changed, in one append."""
        await self._store({each.group.id: each for each in placements})

    async def replace(self, placements: Iterable[GroupPlacement]) -> None:
        """Make these the placements of all groups, in one append; delete those of other groups."""
        ended: dict[str, GroupPlacement | None] = dict.fromkeys(self._by_id)
        await self._store({**ended, **{each.group.id: each for each in placements}})

    async def copy(self, group: str, placement: GroupPlacement | None) -> None:
        """Store the placement that another enabler of the domain has stored for a group.

        ``placement``: None: the group has ended.
        """
        await self._store({group: placement})

    async def _store(self, placements: Mapping[str, GroupPlacement | None]) -> None:
        changed = {
            group: placement
            for group, placement in placements.items()
            if self._by_id.get(group) != placement
        }
        if not changed:
            return
        await self._journal.append_all(changed, self._clock())
        for group, placement in changed.items():
            self._apply(group, placement)

    def _apply(self, group: str, placement: GroupPlacement | None) -> None:
        if placement is None:
            self._by_id.pop(group, None)
        else:
            self._by_id[group] = placement
