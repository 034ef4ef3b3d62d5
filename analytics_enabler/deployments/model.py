"""Deployments and their history as immutable data, stored as JSON."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from analytics.plan.nodes import Insight, fingerprint
from analytics_enabler.deployments.move import Move
from analytics_enabler.groups import Group
from analytics_enabler.semantics import Definition
from grammar import Diagnostic
from mistbow.domains import DEFAULT_DOMAIN

MAX_ENDED = 100
"""The maximum number of ended generations per deployment, besides the newest of each insight.

Older ended generations are deleted, and results of deleted generations are no longer shown.
"""


_DIGEST_DIGITS = 8


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One definition of an insight, in force for the ticks in ``(since, until]``.

    ``uid``: the unique id (``generation_uid``). ``scope``: the only site that the insight reads;
    None: all sites. The scope never changes.
    ``settled``: the generation has ended, and the results for all its ticks are final.
    ``missing_sites``: the sites that are missing in the final results.
    ``paused``: the generation has ended because its deployment was paused, and still defines its
    insight; the resumption starts the next generation.
    ``domain``: the domain whose enabler runs the insight.
    """

    uid: str
    definition: Definition
    since: int
    until: int | None = None
    settled: bool = False
    missing_sites: tuple[str, ...] = ()
    scope: str | None = None
    paused: bool = False
    domain: str = DEFAULT_DOMAIN

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
            domain=self.domain,
        )

    @property
    def name(self) -> str:
        """The name of the insight."""
        return self.definition.name

    @property
    def number(self) -> int:
        """The sequence number of this generation among all generations of the insight, from 1.

        Two generations that both sides of a split have added may have the same number.
        """
        return int(self.uid.rpartition("/")[2].partition("_")[0])

    @property
    def first_tick(self) -> int:
        """The first tick with a result (ms since the epoch)."""
        return self.definition.ticks.after(self.since)

    @property
    def insight(self) -> Insight:
        """The insight in the form that plans contain."""
        return self.definition.deployed(self.uid, self.since)


def generation_uid(
    deployment_id: str, number: int, definition: Definition, since: int, scope: str | None
) -> str:
    """Return the uid of a generation: DEPLOYMENT/NAME/NUMBER_DIGEST.

    Both sides of a split may add a generation with the same number. The digest depends on all that
    determines the results, so rows with the same uid have the same meaning at both sides. Earlier
    versions gave uids without a digest, and read what follows the last slash by ``int``, which
    ignores the underscore. So the digest has decimal digits only.
    """
    meaning = fingerprint((definition.meaning, since, scope))
    digest = int(meaning, 16) % 10**_DIGEST_DIGITS
    return f"{deployment_id}/{definition.name}/{number}_{digest:0{_DIGEST_DIGITS}}"


def time_of_change(now: int, former: int) -> int:
    """Return the time (ms) of a change that is made ``now``, after the ``former`` change.

    The former change may have the time of another enabler, whose clock is ahead. With an earlier
    time, this change would be undone when both enablers compare their versions.

    >>> time_of_change(7, 5), time_of_change(7, 9)
    (7, 10)
    """
    return max(now, former + 1)


Settlement = Callable[[Generation], Sequence[str] | None]
"""A function that returns the sites that are missing in the final results of an ended generation.

None: not all results are stored, or some of them are still corrected.
"""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """Insights that were submitted together; times are in ms since the epoch.

    ``paused_at``: the time of the pause; None: the deployment is not paused. ``domain``: the domain
    to which new generations belong. ``amended_at``: the time of the last amendment.
    ``amended_by``: the author of this amendment; None: no amendment, or an enabler of an earlier
    version accepted it. ``switched_at``: the time of the last pause or resumption. ``owner``: who
    submitted it; None: an enabler of an earlier version accepted it. ``move``: its last move to a
    larger domain; None: there was none.
    """

    id: str
    name: str | None
    queries: str
    warnings: tuple[Diagnostic, ...]
    created_at: int
    updated_at: int
    generations: tuple[Generation, ...] = ()
    paused_at: int | None = None
    domain: str = DEFAULT_DOMAIN
    amended_at: int | None = None
    switched_at: int | None = None
    owner: str | None = None
    amended_by: str | None = None
    move: Move | None = None

    @property
    def pending_move(self) -> Move | None:
        """The move that has begun but has not ended; None: no move."""
        return None if self.move is None or self.move.is_ended else self.move

    @property
    def live(self) -> tuple[Generation, ...]:
        """The present definitions: the generations in force, or those of a paused deployment."""
        return tuple(each for each in self.generations if each.until is None or each.paused)

    @property
    def ended(self) -> tuple[Generation, ...]:
        """The generations that amendments, or a pause and its resumption, have ended."""
        return tuple(
            each for each in self.generations if each.until is not None and not each.paused
        )

    def subjects(self, insight: str | None = None) -> set[str]:
        """Return the subjects of the decisions about this deployment: its id, and its groups.

        ``insight``: the name of the only insight whose groups are included; None: all insights.
        """
        chosen = (each for each in self.generations if insight in (None, each.name))
        return {self.id, *(each.group.id for each in chosen)}

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

        A new generation of a paused deployment is paused too, and has no ticks.

        ``scope_of``: returns the scope of a new generation.
        """
        former = {generation.name: generation for generation in self.live}
        current: list[Generation] = []
        for definition in definitions:
            old = former.get(definition.name)
            kept = None if old is None else old.definition.continued(definition)
            if old is not None and kept is not None:
                del former[definition.name]
                current.append(msgspec.structs.replace(old, definition=kept))
            else:
                start = since if definition.feed is None else 0
                new = self._next_generation(definition, start, scope_of(definition))
                current.append(new if self.paused_at is None else _paused(new, start))
        ended = [*self.ended, *(_ended(old, since) for old in former.values())]
        return self._with_generations(ended, current)

    def paused(self, now: int, frontiers: Callable[[Generation], int]) -> "Deployment":
        """Return the deployment paused at the time ``now``: each generation in force ends.

        ``frontiers``: returns the time (ms) up to which the results of a generation will be
        computed.
        """
        current = [_paused(generation, frontiers(generation)) for generation in self.live]
        paused = self._with_generations(self.ended, current)
        return msgspec.structs.replace(paused, paused_at=now, updated_at=now, switched_at=now)

    def resumed(self, now: int, since: int) -> "Deployment":
        """Return the deployment resumed at the time ``now``.

        Each insight has a next generation, which begins after the time ``since``.

        An insight over a feed continues after its last result instead, since the rows of the feed
        are stored.
        """
        ended, current = list(self.ended), []
        for old in self.live:
            ended.append(msgspec.structs.replace(old, paused=False))
            until = old.until or 0
            start = max(since, until) if old.definition.feed is None else until
            current.append(self._next_generation(old.definition, start, old.scope))
        resumed = self._with_generations(ended, current)
        return msgspec.structs.replace(resumed, paused_at=None, updated_at=now, switched_at=now)

    def in_domain(self, domain: str) -> "Deployment":
        """Return the deployment as a domain runs it, with the same insights and times."""
        generations = tuple(
            msgspec.structs.replace(each, domain=domain) for each in self.generations
        )
        move = self.move if domain == self.domain else None
        return msgspec.structs.replace(self, generations=generations, domain=domain, move=move)

    def settled(self, settlement: Settlement) -> "Deployment":
        """Return the deployment after settling the ended generations whose results are final."""
        generations = tuple(_settled(each, settlement) for each in self.generations)
        if generations == self.generations:
            return self
        return msgspec.structs.replace(self, generations=generations)

    def _next_generation(self, definition: Definition, since: int, scope: str | None) -> Generation:
        numbers = [g.number for g in self.generations if g.name == definition.name]
        number = max(numbers, default=0) + 1
        uid = generation_uid(self.id, number, definition, since, scope)
        return Generation(
            uid=uid, definition=definition, since=since, scope=scope, domain=self.domain
        )

    def _with_generations(
        self, ended: Sequence[Generation], current: Sequence[Generation]
    ) -> "Deployment":
        newest = {each.name: each.uid for each in ended}
        retained = {each.name for each in current}
        old = [each for each in ended[:-MAX_ENDED] if newest[each.name] == each.uid]
        ended = [*(each for each in old if each.name in retained), *ended[-MAX_ENDED:]]
        return msgspec.structs.replace(self, generations=(*ended, *current))


def _settled(generation: Generation, settlement: Settlement) -> Generation:
    if generation.settled or generation.until is None:
        return generation
    missing = settlement(generation)
    if missing is None:
        return generation
    return msgspec.structs.replace(generation, settled=True, missing_sites=tuple(missing))


def _ended(generation: Generation, since: int) -> Generation:
    """Return the ended form of a generation; one that runs now ends at ``since`` (ms)."""
    if generation.paused:
        return msgspec.structs.replace(generation, paused=False)
    until = since if generation.definition.feed is None else 0
    return msgspec.structs.replace(generation, until=until)


def _paused(generation: Generation, until: int) -> Generation:
    """Return the paused form of a generation, which ends at the time ``until`` (ms)."""
    is_empty = until <= generation.since
    return msgspec.structs.replace(
        generation, until=max(until, generation.since), paused=True, settled=is_empty
    )


class DeploymentSaved(msgspec.Struct, frozen=True, tag="saved"):
    """The event that a deployment was created or changed."""

    deployment: Deployment


class DeploymentDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    """The event that a deployment was deleted at the time ``at`` (ms).

    0: an enabler of an earlier version stored the event. ``moved_to``: the domain that has the
    deployment now; None: no domain. ``also_in``: the domain that may have the deployment, because
    its move had begun, and that must delete it too; None: no domain.
    """

    at: int = 0
    moved_to: str | None = None
    also_in: str | None = None


Event = DeploymentSaved | DeploymentDeleted


def event_from_json(text: str) -> Event:
    """Decode the event of a deployment from JSON."""
    event: Event = msgspec.json.decode(text, type=Event)
    return event
