"""The streams that lost rows, their states, and the error that readers and writers receive."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from mistbow.errors import ConflictError, LostDataError
from mistbow.telemetry import get_logger
from storage_agent import metrics

log = get_logger(__name__)


class StreamState(Enum):
    """Whether a stream has lost rows; reads and writes are refused unless the state is ``WHOLE``.

    ``WHOLE`` → ``LOST``: the head is below a remembered head. ``LOST`` → ``REPAIRING``: a repair
    begins. ``REPAIRING`` → ``WHOLE``: the repair succeeded. ``REPAIRING`` → ``LOST``: the repair
    failed. ``LOST`` → ``WHOLE``: the losses are cleared before a new inspection.
    """

    WHOLE = "whole"
    LOST = "lost"
    REPAIRING = "repairing"


@dataclass(frozen=True, slots=True)
class Loss:
    """A detected loss: a stream ends at ``head``, which is less than the head ``remembered``.

    ``key``: the key of the stream's log. ``by``: who remembers the head: ``this agent``, or the
    site of a replica.
    """

    stream: str
    key: str
    head: int
    remembered: int
    by: str

    @property
    def message(self) -> str:
        """The text that describes the loss to users."""
        return (
            f"the stream {self.stream} ends at {self.head}, but {self.by} remembers it up to "
            f"{self.remembered}: Ignite has lost rows that it had acknowledged"
        )

    def error(self) -> LostDataError:
        """Return the error that readers and writers of the stream receive."""
        return LostDataError(
            self.message,
            hint="docs/several-machines.md, 'Lost data', describes the repair.",
            details={"stream": self.stream, "head": self.head, "remembered": self.remembered},
        )


class LossRegister:
    """Records the losses of streams, and determines the state of each stream from its losses."""

    def __init__(self) -> None:
        self._losses: dict[str, Loss] = {}
        self._repairing: set[str] = set()

    def all(self) -> list[Loss]:
        """Return the losses, ordered by the names of their streams."""
        return [loss for _, loss in sorted(self._losses.items())]

    def state(self, stream: str) -> StreamState:
        """Return the state of a stream."""
        if stream in self._repairing:
            return StreamState.REPAIRING
        return StreamState.LOST if stream in self._losses else StreamState.WHOLE

    def check(self, stream: str) -> None:
        """Raise ``LostDataError`` if a stream has lost rows."""
        if stream in self._losses:
            raise self._losses[stream].error()

    def add(self, loss: Loss) -> None:
        """Record a loss, unless its stream has a recorded loss with a greater remembered head."""
        before = self._losses.get(loss.stream)
        if before is None or before.remembered < loss.remembered:
            log.critical(
                "stream_rows_lost",
                stream=loss.stream,
                head=loss.head,
                remembered=loss.remembered,
                by=loss.by,
            )
            self._losses[loss.stream] = loss
            metrics.REFUSED.set(len(self._losses))

    def clear(self) -> None:
        """Remove all losses, because all streams will be inspected again."""
        self._losses.clear()
        metrics.REFUSED.set(0)

    @contextmanager
    def repairing(self, stream: str) -> Iterator[Loss]:
        """Set the state of a stream to ``REPAIRING`` during the block, and yield the stream's loss.

        After the block, the state is ``WHOLE``, or ``LOST`` if the block raised an error. Raises
        ``ConflictError`` if the stream has lost no rows.
        """
        if stream not in self._losses:
            raise ConflictError(f"the stream {stream} has lost no rows")
        self._repairing.add(stream)
        try:
            yield self._losses[stream]
            del self._losses[stream]
            metrics.REFUSED.set(len(self._losses))
        finally:
            self._repairing.discard(stream)
