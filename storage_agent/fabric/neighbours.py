"""The other sites that this agent knows: which answer, by what address, how fast."""

import asyncio
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.telemetry import get_logger
from storage_agent.fabric.greeting import Greeting, Known

log = get_logger(__name__)

_SAMPLES = 5


@dataclass(slots=True)
class Neighbour:
    """Another site; ``address`` is where its agent answers now, None while it is silent.

    ``heard`` is when it last answered (milliseconds since the epoch), ``reaches`` what it then said
    that it reaches straight. ``restarts`` and ``losses`` count how often another run of its agent
    answered, and how often it fell silent, since this agent started.
    """

    site: str
    node: str
    url: str
    instance: str | None = None
    address: str | None = None
    heard: int | None = None
    reaches: frozenset[str] = frozenset()
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    restarts: int = 0
    losses: int = 0

    @property
    def latency_ms(self) -> float | None:
        """Half of a round trip; None while there is none, or none was measured yet."""
        # The median: now and then a round trip also waits for one of the two processes.
        return statistics.median(self.samples) if self.address and self.samples else None


class Neighbours:
    """All other sites, by name; ``seeds`` are addresses of agents whose sites are not known."""

    def __init__(self, own: Greeting, seeds: Iterable[str], clock: Clock) -> None:
        self._own = own
        self._clock = clock
        self._known: dict[str, Neighbour] = {}
        self._seeds: dict[str, str | None] = dict.fromkeys(seeds)
        self._changed = asyncio.Event()
        self._told: set[tuple[str, str]] = set()
        self._forgotten: Mapping[str, int] = {}

    def __iter__(self) -> Iterator[Neighbour]:
        yield from [self._known[site] for site in sorted(self._known)]

    def get(self, site: str) -> Neighbour | None:
        """Return a site, or None if it is not known."""
        return self._known.get(site)

    def changed(self) -> asyncio.Event:
        """Return what is set when next a site is learned, answers again, or tells of its ways."""
        return self._changed

    def greeting(self) -> Greeting:
        """Return what this agent says to others."""
        knows = tuple(
            Known(
                site=each.site,
                node=each.node,
                url=each.url,
                reached=each.address is not None,
                latency_ms=each.latency_ms,
            )
            for each in self
        )
        return Greeting(
            site=self._own.site,
            node=self._own.node,
            url=self._own.url,
            instance=self._own.instance,
            knows=knows,
        )

    def addresses(self) -> set[str]:
        """Return whom to greet: each site where it answers, or wherever it may."""
        wanted = {each.address or each.url for each in self}
        for seed, site in self._seeds.items():
            known = self._known.get(site or "")
            if site != self._own.site and (known is None or known.address is None):
                wanted.add(seed)
        return wanted - {self._own.url}

    def reachable(self, site: str) -> bool:
        """Tell whether there is a way to a site, straight or through one that reaches it."""
        return bool(self.ways(site))

    def ways(self, site: str) -> list[Neighbour]:
        """Return the sites to which a request for ``site`` may go next, the best first."""
        known = self._known.get(site)
        straight = [known] if known is not None and known.address is not None else []
        through = [each for each in self if each.address and site in each.reaches]
        return straight + sorted(through, key=lambda each: each.latency_ms or 0.0)

    def learn(self, site: str, node: str, url: str) -> None:
        """Hear of a site from elsewhere; what it says itself counts more."""
        known = self._known.get(site)
        if site == self._own.site or (known is not None and known.address is not None):
            return
        if known is None:
            log.info("learned of a site", site=site, url=url)
            known = self._known[site] = Neighbour(site, node, url)
            self._announce()
        known.node, known.url = node, url

    def forget(self, told: Mapping[str, int]) -> None:
        """Drop the sites that are to be forgotten by what is told now, each since a time (ms).

        One that can be reached when that is first told stays, and so does one that comes later.
        """
        before, self._forgotten = self._forgotten, dict(told)
        for site, since in told.items():
            is_news = since > before.get(site, -1)
            if is_news and site in self._known and not self.reachable(site):
                log.info("a site is forgotten", site=site)
                del self._known[site]
                self._announce()

    @property
    def forgotten(self) -> tuple[str, ...]:
        """The sites that are to be forgotten, and were not heard of since."""
        return tuple(sorted(self._forgotten.keys() - self._known.keys()))

    def check(self, greeting: Greeting) -> bool:
        """Return False for this agent's own greeting.

        Raises ``ConflictError`` for one of another agent that has the name of a site that is there.
        """
        site = greeting.site
        if site == self._own.site:
            if greeting.instance == self._own.instance:
                return False
            self._refuse(greeting, self._own.url)
        known = self._known.get(site)
        there = known is not None and known.address is not None
        if known is not None and there and known.url != greeting.url:
            self._refuse(greeting, known.url)
        return True

    def greeted(self, greeting: Greeting) -> bool:
        """Take the greeting of another agent; returns whether that one is silent itself.

        Raises ``ConflictError``.
        """
        if not self.check(greeting):
            return False
        self.learn(greeting.site, greeting.node, greeting.url)
        self._learn_all(greeting)
        return self._known[greeting.site].address is None

    def answered(self, address: str, greeting: Greeting, trip_ms: float | None) -> None:
        """Take the answer to a greeting; raises ``ConflictError``."""
        for other in self:
            if other.address == address and other.site != greeting.site:
                self._silence(other)
        if address in self._seeds:
            self._seeds[address] = greeting.site
        if not self.check(greeting):
            return
        self.learn(greeting.site, greeting.node, greeting.url)
        known = self._known[greeting.site]
        if known.address is None:
            known.address = address
            known.samples.clear()
            self._announce()
        if known.address == address and trip_ms is not None:
            known.samples.append(trip_ms / 2)
        known.restarts += known.instance not in (None, greeting.instance)
        known.node, known.instance = greeting.node, greeting.instance
        known.heard = self._clock()
        reaches = frozenset(each.site for each in greeting.knows if each.reached)
        if reaches != known.reaches:
            known.reaches = reaches
            self._announce()
        self._learn_all(greeting)

    def failed(self, address: str) -> None:
        """Take note that an address does not answer."""
        for known in self:
            if known.address == address:
                self._silence(known)

    def _silence(self, known: Neighbour) -> None:
        log.info("a site is silent", site=known.site, address=known.address)
        known.address = None
        known.losses += 1
        known.reaches = frozenset()
        self._announce()

    def _learn_all(self, greeting: Greeting) -> None:
        for each in greeting.knows:
            # Who does not reach a site may have an address of it that is old, or have yet to hear
            # that it is forgotten.
            is_new = each.site not in self._known and each.site not in self._forgotten
            if each.reached or is_new:
                self.learn(each.site, each.node, each.url)

    def _refuse(self, greeting: Greeting, url: str) -> None:
        if (greeting.site, greeting.url) not in self._told:
            self._told.add((greeting.site, greeting.url))
            log.error(
                "two agents claim to be one site", site=greeting.site, first=url, then=greeting.url
            )
        raise ConflictError(
            f"the agent at {greeting.url} claims to be the site {greeting.site}, "
            f"which is the agent at {url}",
            hint="Give one of them another MISTBOW_SITE.",
        )

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
