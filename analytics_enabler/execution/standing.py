"""How each group runs: stored before it is acted on, so that a new enabler goes on with it."""

from collections.abc import Iterable, Mapping

import msgspec

from analytics_enabler.fragments import Version
from analytics_enabler.groups import Group
from analytics_enabler.journal import Journal
from mistbow.clock import Clock


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A group that runs: the version of its partials and their sites, and each task's node.

    Without a version it runs whole at the only site.
    """

    group: Group
    version: Version | None = None
    sites: tuple[str, ...]
    nodes: Mapping[str, str] = {}


def standing_from_json(text: str) -> Standing | None:
    """Read how a group runs; null where it has ended."""
    standing: Standing | None = msgspec.json.decode(text, type=Standing | None)
    return standing


class Standings:
    """The groups that run, by id."""

    def __init__(self, journal: Journal[Standing | None], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._by_id: dict[str, Standing] = {}
        self._current = False

    async def refresh(self) -> None:
        """Read what is stored and not known yet: everything at first, nothing mostly."""
        if self._current:
            return
        for group, standing in await self._journal.unread():
            self._apply(group, standing)
        self._current = True

    def claim_again(self) -> None:
        """Take the stream over again: another enabler did that has lost the deployments since."""
        self._journal.claim_again()
        self._by_id.clear()
        self._current = False

    def get(self, group: Group) -> Standing | None:
        """Return how a group runs, if it does."""
        return self._by_id.get(group.id)

    def all(self) -> list[Standing]:
        """Return how each group runs."""
        return list(self._by_id.values())

    async def store(self, standing: Standing) -> None:
        """Note how a group runs."""
        if self._by_id.get(standing.group.id) != standing:
            await self._append(standing.group.id, standing)

    async def keep(self, groups: Iterable[Group]) -> None:
        """Forget all groups but these."""
        kept = {group.id for group in groups}
        for ended in [group for group in self._by_id if group not in kept]:
            await self._append(ended, None)

    async def _append(self, group: str, standing: Standing | None) -> None:
        try:
            await self._journal.append(group, standing, self._clock())
        except BaseException:
            # It may have been stored all the same: read it again before going on.
            self._current = False
            raise
        self._apply(group, standing)

    def _apply(self, group: str, standing: Standing | None) -> None:
        if standing is None:
            self._by_id.pop(group, None)
        else:
            self._by_id[group] = standing
