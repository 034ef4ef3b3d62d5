"""Deployments and their history as immutable data, stored as JSON."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from analytics.plan.nodes import Insight
from analytics_enabler.groups import Group
from analytics_enabler.semantics import Definition
from grammar import Diagnostic

MAX_ENDED = 100
"""The maximum number of ended generations per deployment.

Older ended generations are deleted, and results of deleted generations are no longer shown.
"""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One definition of an insight, in force for the ticks in ``(since, until]``.

    ``scope``: the only site that the insight reads; None: all sites. The scope never changes.
    ``settled``: the generation has ended, and the results for all its ticks are written.
    """

    uid: str
    definition: Definition
    since: int
    until: int | None = None
    settled: bool = False
    scope: str | None = None

    @property
    def group(self) -> Group:
        """The group that runs this generation."""
        options = self.definition.options
        return Group(
            scope=self.scope,
            scheduler=self.definition.scheduler,
            options=options,
            alone=self.uid if options.alone else None,
            feed=self.definition.feed,
        )

    @property
    def name(self) -> str:
        """The name of the insight."""
        return self.definition.name

    @property
    def number(self) -> int:
        """The sequence number of this generation among all generations of the insight, from 1."""
        return int(self.uid.rpartition("/")[2])

    @property
    def first_tick(self) -> int:
        """The first tick with a result (ms since the epoch)."""
        return self.definition.ticks.after(self.since)

    @property
    def insight(self) -> Insight:
        """The insight in the form that plans contain."""
        return self.definition.deployed(self.uid, self.since)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """Insights that were submitted together; times are in ms since the epoch."""

    id: str
    name: str | None
    queries: str
    warnings: tuple[Diagnostic, ...]
    created_at: int
    updated_at: int
    generations: tuple[Generation, ...] = ()

    @property
    def live(self) -> tuple[Generation, ...]:
        """The generations in force."""
        return tuple(generation for generation in self.generations if generation.until is None)

    @property
    def running(self) -> tuple[Generation, ...]:
        """The generations that workers compute: all generations that are not settled."""
        return tuple(generation for generation in self.generations if not generation.settled)

    def defined_by(
        self,
        definitions: Iterable[Definition],
        since: int,
        scope_of: Callable[[Definition], str | None] = lambda _: None,
    ) -> "Deployment":
        """Return the deployment with these definitions, which take effect after the time ``since``.

        An insight with an unchanged meaning keeps its generation. Any other definition starts a new
        generation. A generation whose insight was redefined or removed ends at ``since``. If an
        insight reads a feed, the generations of the insight start and end at the first row of the
        feed instead of at ``since``, because all rows of the feed may be in the past.

        ``scope_of``: returns the scope of a new generation.
        """
        live = {generation.name: generation for generation in self.live}
        current: list[Generation] = []
        for definition in definitions:
            old = live.get(definition.name)
            if old is not None and old.definition.meaning == definition.meaning:
                del live[definition.name]
                current.append(msgspec.structs.replace(old, definition=definition))
            else:
                start = since if definition.feed is None else 0
                current.append(self._next_generation(definition, start, scope_of(definition)))
        ended = [g for g in self.generations if g.until is not None]
        ended += [
            msgspec.structs.replace(old, until=since if old.definition.feed is None else 0)
            for old in live.values()
        ]
        return msgspec.structs.replace(self, generations=(*ended[-MAX_ENDED:], *current))

    def settled_to(self, frontiers: Mapping[Group, int]) -> "Deployment":
        """Return the deployment after settling ended generations whose results are complete.

        The results are complete once the frontier of the group has reached the generation's end.
        ``frontiers``: group -> the frontier of the group's results (ms since the epoch).
        """
        generations = tuple(
            msgspec.structs.replace(g, settled=True)
            if not g.settled and g.until is not None and g.until <= frontiers.get(g.group, -1)
            else g
            for g in self.generations
        )
        if generations == self.generations:
            return self
        return msgspec.structs.replace(self, generations=generations)

    def _next_generation(self, definition: Definition, since: int, scope: str | None) -> Generation:
        numbers = [g.number for g in self.generations if g.name == definition.name]
        uid = f"{self.id}/{definition.name}/{max(numbers, default=0) + 1}"
        return Generation(uid=uid, definition=definition, since=since, scope=scope)


class DeploymentSaved(msgspec.Struct, frozen=True, tag="saved"):
    """The event that a deployment was created or changed."""

    deployment: Deployment


class DeploymentDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    """The event that a deployment was deleted."""


Event = DeploymentSaved | DeploymentDeleted


def event_from_json(text: str) -> Event:
    """Decode the event of a deployment from JSON."""
    event: Event = msgspec.json.decode(text, type=Event)
    return event
