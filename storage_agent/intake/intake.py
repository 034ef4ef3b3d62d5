"""Taking points in, wherever they can be kept now."""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from mistbow.errors import InvalidRequestError, TooLargeError, UnavailableError
from mistbow.settings import AgentSettings
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.intake.spool import Spool, Spooled
from storage_agent.monitoring.bodies import Measurement, PutBody
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.monitoring.points import PointMaker
from storage_agent.streams.recent_keys import OWN
from storage_agent.streams.writer import Writer

log = get_logger(__name__)

_BODY = msgspec.json.Decoder(PutBody)
_AT_ONCE = 50
_BYTES_AT_ONCE = 4 * 2**20
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Store:
    """Where points go when Ignite is there."""

    maker: PointMaker
    writer: Writer
    epoch: int

    async def put(self, body: PutBody, key: str | None) -> None:
        """Store the points of a body, all or none; raises ``UnavailableError``."""
        points = self.maker.make(body.monitoring)
        await self.writer.append(points.rows, epoch=self.epoch, key=key, series=points.series)


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many points were taken; ``spooled``: onto this node's disk, to be stored later."""

    points: int
    spooled: bool = False


class Intake:
    """Stores points; while it cannot, it spools or refuses them, as the settings say.

    ``store`` returns where they go, or None while Ignite is away; ``is_stored`` tells of a key
    whether its points went there lately.
    """

    def __init__(
        self,
        settings: AgentSettings,
        store: Callable[[], Store | None],
        is_stored: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._store = store
        self._is_stored = is_stored
        self._spools = settings.when_away == "spool"
        self._spool = Spool(settings.home / "agent" / "spool.db", settings.spool_mb * 2**20)
        self._run = OWN + secrets.token_hex(8)
        self._numbers = itertools.count()
        # Knows no series: it only tells what is wrong with a body.
        self._check = PointMaker(settings, Catalogue())

    async def put(self, body: PutBody, key: str | None) -> Accepted:
        """Take the points of a body, all or none; durable, in one way or the other, after this.

        Raises ``UnavailableError`` and ``StorageFullError`` where it can do neither.
        """
        count = len(body.monitoring)
        if count > self._settings.max_points:
            raise TooLargeError(
                f"the body has more than {self._settings.max_points} points",
                hint="Send fewer at once.",
            )
        if not count:
            return Accepted(0)
        known = await self._spool.known(key) if self._spools and key is not None else None
        if known is not None:
            return Accepted(count, spooled=known == "waiting")
        store = self._store()
        if store is not None:
            store.writer.check_room()
        if not self._spools:
            await _there(store).put(body, key)
            return Accepted(count)
        # A body whose storing is in doubt is told by its key when it is stored from the spool.
        key = key or f"{self._run}-{next(self._numbers)}"
        if store is not None and not self._spool.bodies:
            try:
                await store.put(body, key)
                return Accepted(count)
            except UnavailableError as error:
                log.info("spooling", because=error.message)
        if self._is_stored(key):
            return Accepted(count)
        (self._check if store is None else store.maker).make(body.monitoring)
        await self._spool.append(key, msgspec.json.encode(body), count)
        metrics.SPOOLED_POINTS.inc(count)
        return Accepted(count, spooled=True)

    def fits(self, item: Measurement) -> bool:
        """Tell whether what an item says beside its value and time is not too much."""
        store = self._store()
        return (self._check if store is None else store.maker).fits(item)

    async def drain(self) -> None:
        """Store what was spooled, in its order, whenever Ignite is there; for ever."""
        opened = settled = False
        while True:
            try:
                if not opened:
                    await self._spool.open()
                    opened = True
                store = self._store()
                if store is not None and self._spool.bodies:
                    if not settled:
                        # What was spooled while nobody knew the keys from before this start.
                        await self._spool.settle(self._is_stored)
                        settled = True
                        continue
                    await self._drain(store, await self._spool.next(_AT_ONCE, _BYTES_AT_ONCE))
                    continue
            except UnavailableError:
                pass  # it is away again
            except Exception as error:
                log.error("the spool is not drained", exc_info=error)
            await asyncio.sleep(_PAUSE_S)

    @property
    def waiting(self) -> bool:
        """Whether bodies wait to be stored."""
        return self._spool.bodies > 0

    async def close(self) -> None:
        """Close the spool; what is in it waits for the next start."""
        await self._spool.close()

    async def _drain(self, store: Store, bodies: list[Spooled]) -> None:
        # All at once, for one commit; the writer keeps their order.
        answers = await asyncio.gather(
            *(store.put(_BODY.decode(each.body), each.key) for each in bodies),
            return_exceptions=True,
        )
        for each, answer in zip(bodies, answers, strict=True):
            if isinstance(answer, InvalidRequestError | TooLargeError):
                log.error("a spooled body is refused", points=each.points, error=answer.message)
                metrics.SPOOL_REFUSED_POINTS.inc(each.points)
            elif isinstance(answer, BaseException):
                raise answer
        await self._spool.remove(bodies)


def _there(store: Store | None) -> Store:
    if store is None:
        raise UnavailableError("Ignite is away", hint="/readyz says what the agent waits for.")
    return store
