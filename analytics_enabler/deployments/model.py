"""A deployment and its history, as immutable data, JSON both ways."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from analytics_enabler.groups import Group
from analytics_enabler.semantics import Definition
from grammar import Problem
from mistbow.plan.nodes import Insight

MOST_ENDED = 100
"""Ended generations that a deployment remembers; the results of older ones are not shown."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One definition of an insight in force for the ticks in ``(since, until]``.

    ``scope``: the site that it is over, None for all; it never changes. ``settled``: it has ended,
    and the results of all its ticks are written.
    """

    uid: str
    definition: Definition
    since: int
    until: int | None = None
    settled: bool = False
    scope: str | None = None

    @property
    def group(self) -> Group:
        """The insights that it runs together with."""
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
        """The insight's name."""
        return self.definition.name

    @property
    def number(self) -> int:
        """How many definitions the insight has had, this one included."""
        return int(self.uid.rpartition("/")[2])

    @property
    def first_tick(self) -> int:
        """The first tick that it yields a result for, ms since the epoch."""
        return self.definition.ticks.after(self.since)

    @property
    def insight(self) -> Insight:
        """The insight as the plan has it."""
        return self.definition.deployed(self.uid, self.since)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """Insights submitted together; times in milliseconds since the epoch."""

    id: str
    name: str | None
    queries: str
    warnings: tuple[Problem, ...]
    created_at: int
    updated_at: int
    generations: tuple[Generation, ...] = ()

    @property
    def live(self) -> tuple[Generation, ...]:
        """The generations in force."""
        return tuple(generation for generation in self.generations if generation.until is None)

    @property
    def running(self) -> tuple[Generation, ...]:
        """The generations that a worker has to compute: those in force, and unfinished ones."""
        return tuple(generation for generation in self.generations if not generation.settled)

    def defined_by(
        self,
        definitions: Iterable[Definition],
        since: int,
        scope_of: Callable[[Definition], str | None] = lambda _: None,
    ) -> "Deployment":
        """Return the deployment with these insights from the time ``since`` on.

        An insight that means what it meant goes on undisturbed; another one starts a generation
        of its own, and the one that it replaces ends at the same instant. What reads a feed starts
        with its first row, and what it replaces is no more: the past may be all that there is.
        """
        live = {generation.name: generation for generation in self.live}
        kept: list[Generation] = []
        for definition in definitions:
            old = live.get(definition.name)
            if old is not None and old.definition.meaning == definition.meaning:
                del live[definition.name]
                kept.append(msgspec.structs.replace(old, definition=definition))
            else:
                start = since if definition.feed is None else 0
                kept.append(self._next_generation(definition, start, scope_of(definition)))
        ended = [g for g in self.generations if g.until is not None]
        ended += [
            msgspec.structs.replace(old, until=since if old.definition.feed is None else 0)
            for old in live.values()
        ]
        return msgspec.structs.replace(self, generations=(*ended[-MOST_ENDED:], *kept))

    def settled_to(self, frontiers: Mapping[Group, int]) -> "Deployment":
        """Return the deployment once results are complete up to their group's frontier."""
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


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """A deployment is now like this."""

    deployment: Deployment


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """A deployment is no more."""


Event = Saved | Deleted


def event_from_json(text: str) -> Event:
    """Read an event."""
    event: Event = msgspec.json.decode(text, type=Event)
    return event
