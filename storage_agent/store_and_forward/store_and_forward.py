"""Stores points in the stream ``raw``; spools points on disk while Ignite is unavailable."""

import asyncio
import hashlib
import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from cachetools import TTLCache

from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError, ReusedKeyError, TooLargeError, UnavailableError
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.http.points import PutBody
from storage_agent.ignite.errors import NotSentError, UnansweredError
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.spool import Spool
from storage_agent.store_and_forward.spool_file import SpooledBody
from storage_agent.streams.idempotency_keys import INTERNAL_PREFIX, MAX_AGE_S
from storage_agent.streams.writer import Writer
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder

log = get_logger(__name__)

_BODY = msgspec.json.Decoder(PutBody)
_BATCH_BODIES = 50
_BATCH_BYTES = 4 * 2**20
_MAX_UNANSWERED = 1000


@dataclass(frozen=True, slots=True)
class PointWriter:
    """Encodes the points in a body, and appends them to ``raw``; requires a connected Ignite."""

    encoder: PointEncoder
    writer: Writer
    epoch: int

    async def put(
        self, body: PutBody, key: RequestKey | None, *, is_acknowledged: bool = False
    ) -> None:
        """Store all points in a body, or none of the points.

        ``key``: the idempotency key. ``is_acknowledged``: whether the body waited in the spool, so
        that its new series are stored beyond the limit, too. Raises ``ReusedKeyError`` for the key
        of another body, ``TooLargeError`` for new series beyond the limit, and
        ``UnavailableError`` while Ignite is unavailable.
        """
        points = await self.encoder.encode_in_slices(
            body.monitoring, is_acknowledged=is_acknowledged
        )
        await self.writer.append(points.rows, epoch=self.epoch, key=key, series=points.series)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The number of points that a put accepted, and whether the points were spooled."""

    points: int
    spooled: bool = False


class StoreAndForward:
    """Stores points in Ignite; while Ignite is unavailable, spools or rejects points as configured.

    ``point_writer``: returns the writer of ``raw``; None: Ignite is unavailable. ``is_stored``:
    returns whether the points with an idempotency key were stored recently, and raises
    ``ReusedKeyError`` if the key belongs to another body.
    """

    def __init__(
        self,
        settings: AgentSettings,
        point_writer: Callable[[], PointWriter | None],
        is_stored: Callable[[RequestKey], bool],
    ) -> None:
        self._settings = settings
        self._point_writer = point_writer
        self._is_stored = is_stored
        self._spools = settings.when_away == "spool"
        self._reconciled = False
        self._spool = Spool(settings.home / "agent" / "spool.db", settings.spool_mb * 2**20)
        self._key_prefix = INTERNAL_PREFIX + secrets.token_hex(8)
        self._key_numbers = itertools.count()
        # The digest of a body without a key that Ignite has not answered -> the key of the append.
        self._unanswered = TTLCache[bytes, RequestKey](_MAX_UNANSWERED, MAX_AGE_S)
        # Its catalogue is empty: it only validates bodies while Ignite is unavailable.
        self._validator = PointEncoder(settings, Catalogue())

    async def put(self, body: PutBody, key: RequestKey | None) -> Acceptance:
        """Store or spool all points in a body durably, or none of the points.

        ``key``: the idempotency key. Raises ``UnavailableError`` or ``StorageFullError`` if the
        points can be neither stored nor spooled, ``ReusedKeyError`` for the key of another body,
        and ``TooLargeError`` if the body has too many points, or adds series beyond the limit.
        """
        count = len(body.monitoring)
        if count > self._settings.max_points:
            raise TooLargeError(
                f"the body has {count} points, more than the {self._settings.max_points} allowed",
                hint="Send fewer points in one body.",
            )
        if not count:
            return Acceptance(0)
        status = await self._spool.status(key) if self._spools and key is not None else None
        if status is not None:
            return Acceptance(count, spooled=status == "waiting")
        writer = self._point_writer()
        if writer is not None:
            writer.writer.check_capacity()
        if not self._spools:
            await self._put_once(_require(writer), body, key)
            return Acceptance(count)
        # The key prevents that a body with an unknown outcome is stored again from the spool.
        key = key or self._new_key()
        if writer is not None and not self._spool.bodies:
            try:
                await writer.put(body, key)
                return Acceptance(count)
            except UnavailableError as error:
                log.info("body_spooled", reason=error.message)
        if self._is_stored(key):
            return Acceptance(count)
        encoder = self._validator if writer is None else writer.encoder
        await encoder.encode_in_slices(body.monitoring)
        await self._spool.append(key, msgspec.json.encode(body), count)
        metrics.SPOOLED_POINTS.inc(count)
        return Acceptance(count, spooled=True)

    async def _put_once(self, writer: PointWriter, body: PutBody, key: RequestKey | None) -> None:
        """Store a body; if Ignite has not answered the last such body, store the two as one."""
        if key is not None:
            await writer.put(body, key)
            return
        last = self._unanswered.pop(_digest(body), None) if self._unanswered else None
        key = last or self._new_key()
        try:
            await writer.put(body, key)
        except UnansweredError as error:
            self._unanswered[_digest(body)] = key
            hint = "Repeat the request with the same body: the points are stored once."
            raise UnansweredError(error.message, hint=hint) from error
        except BaseException as error:
            is_sent = isinstance(error, UnavailableError) and not isinstance(error, NotSentError)
            if last is not None or is_sent:
                self._unanswered[_digest(body)] = key
            raise

    def _new_key(self) -> RequestKey:
        return RequestKey(f"{self._key_prefix}-{next(self._key_numbers)}")

    def accepts_attributes(self, point: Point) -> bool:
        """Return whether the attributes of a point do not exceed the allowed size."""
        writer = self._point_writer()
        encoder = self._validator if writer is None else writer.encoder
        return encoder.accepts_attributes(point)

    async def drain(self) -> float | None:
        """Store the oldest spooled bodies in Ignite, in the order of their arrival.

        Returns the seconds until the periodic task calls ``drain`` again: 0 after bodies were
        stored, removed or set aside; None, for the usual interval, if no body was found or Ignite
        is unavailable. If ``drain`` raises an error, the bodies stay in the spool.
        """
        await self._spool.open()
        await self._spool.damaged()
        writer = self._point_writer()
        if writer is None or not self._spool.bodies:
            return None
        if not self._reconciled:
            # Bodies spooled before the keys of an earlier start were recovered.
            await self._spool.remove_stored(self._is_stored_body)
            self._reconciled = True
            return 0
        before = self._spool.bodies
        bodies = await self._spool.next(_BATCH_BODIES, _BATCH_BYTES)
        if not bodies:
            # Damaged bodies were set aside, and intact ones may follow them.
            return 0 if self._spool.bodies < before else None
        await self._store(writer, bodies)
        return 0

    @property
    def spooled_bodies(self) -> int:
        """The number of bodies in the spool."""
        return self._spool.bodies

    @property
    def has_spooled(self) -> bool:
        """Whether bodies wait in the spool, or may wait, since the spool was not opened yet."""
        return not self._spool.is_open or self._spool.bodies > 0

    def unstored(self) -> list[str]:
        """Return why reads miss acknowledged points; empty: no points wait in the spool."""
        if not self._spool.bodies:
            return []
        return ["points wait in the spool, and can be read once Ignite has stored them"]

    def check_drained(self, operation: str) -> None:
        """Raise ``UnavailableError`` if points wait or may wait in the spool.

        ``operation``: what would miss these points, for the error.
        """
        if not self.has_spooled:
            return
        if self._spool.is_open:
            problem = "points wait in the spool"
            hint = "Try again when mistbow_agent_spooled_bodies is 0."
        else:
            problem = "the spool is not open, and points may wait there"
            hint = self._spool.problem or "Try again in a few seconds."
        raise UnavailableError(f"{problem}; {operation} would miss them", hint=hint)

    async def forget_bodies(self) -> None:
        """Forget the bodies without a client's key that may be stored, before a deletion."""
        self._unanswered.clear()
        await self._spool.forget_bodies()

    async def close(self) -> None:
        """Close the spool; the spooled bodies remain on disk for the next start."""
        await self._spool.close()

    def spool_problems(self) -> list[str]:
        """Return the problems of a spool that cannot be read, with remedies; empty: no problem."""
        return [] if self._spool.problem is None else [self._spool.problem]

    async def spool_warnings(self) -> list[str]:
        """Return the parts that were set aside, with what to do, until their files are deleted."""
        return [
            "a part of the spool was damaged, or a body was refused by the store, and "
            f"{file} contains the part that was set aside; all other points are delivered: find "
            "the missing points by the log events spool_damaged and spooled_body_rejected, let "
            "their senders send them again, and then delete this file"
            for file in await self._spool.damaged()
        ]

    def _is_stored_body(self, key: RequestKey) -> bool:
        try:
            return self._is_stored(key)
        except ReusedKeyError:
            return False

    async def _store(self, writer: PointWriter, bodies: list[SpooledBody]) -> None:
        decoded: list[tuple[SpooledBody, PutBody]] = []
        for each in bodies:
            try:
                decoded.append((each, _BODY.decode(each.body)))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                await self._spool.set_aside(each, str(error))
        # All at once, for one group commit; the writer preserves their order.
        answers = await asyncio.gather(
            *(_put_spooled(writer, body, each.key) for each, body in decoded),
            return_exceptions=True,
        )
        stored: list[SpooledBody] = []
        refused: list[tuple[SpooledBody, str]] = []
        for (each, _), answer in zip(decoded, answers, strict=True):
            if isinstance(answer, InvalidRequestError | TooLargeError):
                refused.append((each, answer.message))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                stored.append(each)
        await self._spool.remove(stored)
        for each, problem in refused:
            # Its sender has an acknowledgement: an operator decides what to do with the points.
            log.error("spooled_body_rejected", points=each.points, error=problem)
            metrics.SPOOL_REFUSED_POINTS.inc(each.points)
            await self._spool.set_aside(each, problem)


async def _put_spooled(writer: PointWriter, body: PutBody, key: RequestKey) -> None:
    try:
        await writer.put(body, key, is_acknowledged=True)
    except ReusedKeyError:
        # The body was acknowledged before the keys in Ignite could be read.
        key = RequestKey(f"{INTERNAL_PREFIX}{key.digest}/{key.text}")
        await writer.put(body, key, is_acknowledged=True)


def _digest(body: PutBody) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(body), digest_size=16).digest()


def _require(writer: PointWriter | None) -> PointWriter:
    if writer is None:
        raise UnavailableError(
            "Ignite is unavailable, and MISTBOW_WHEN_AWAY is refuse",
            hint="Try again later; /readyz reports what the agent waits for.",
        )
    return writer
