"""The record of kills for lack of memory, which limits the fragments of a restarted worker.

Without the record, a killed worker would receive the same fragments again, and be killed again. The
record is a private file, which the worker updates while it runs. If the record shows that the
former process did not stop, and had used up its memory, the kernel killed it.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from mistbow.clock import Clock
from mistbow.fabric import FragmentLimit
from mistbow.files import write_file
from mistbow.telemetry import get_logger

log = get_logger(__name__)

STEP_MS = 300_000
"""The time (ms) after which the limit of a first kill rises by one fragment."""

_MAX_DOUBLINGS = 4

OomKills = Callable[[], int | None]
"""A function that returns how many processes the kernel has killed for memory; None: unknown."""


class Kill(msgspec.Struct, frozen=True):
    """A kill: its time (ms), and how many fragments ran. ``repeats``: earlier kills in a row."""

    at: int
    fragments: int
    repeats: int = 0

    @property
    def step_ms(self) -> int:
        """The time (ms) after which the limit rises by one fragment."""
        return STEP_MS << min(self.repeats, _MAX_DOUBLINGS)

    def limit(self, now: int) -> FragmentLimit | None:
        """Return the limit at a time (ms): at first ``fragments`` - 1; None: no limit."""
        steps = max(now - self.at, 0) // self.step_ms
        if steps >= 2:
            return None
        fragments = max(self.fragments - 1, 0) + steps
        until = self.at + (steps + 1) * self.step_ms
        return FragmentLimit(
            fragments=fragments, killed_at=self.at, ran=self.fragments, until=until
        )


class _State(msgspec.Struct, frozen=True):
    """The content of the file; ``fragments`` 0: the worker has stopped, or ran no fragments."""

    fragments: int = 0
    is_short: bool = False
    oom_kills: int | None = None
    kill: Kill | None = None


class KillRecord:
    """The kills of a worker, across restarts; ``path``: the file of the record."""

    def __init__(self, path: Path, oom_kills: OomKills, clock: Clock) -> None:
        self._path = path
        self._oom_kills = oom_kills
        self._clock = clock
        self._state = _State()
        self._is_open = False

    def open(self) -> None:
        """Read the file, and add a kill if the former process was killed for lack of memory."""
        former = _read(self._path)
        self._is_open = True
        self._state = _State(oom_kills=self._oom_kills(), kill=former.kill)
        if former.fragments and (former.is_short or _has_risen(former, self._state)):
            self._add_kill(former.fragments)
        self._write()

    @property
    def limit(self) -> FragmentLimit | None:
        """The limit of fragments because of a kill; None: no limit."""
        kill = self._state.kill
        return None if kill is None else kill.limit(self._clock())

    def update(self, fragments: int, *, is_short: bool) -> None:
        """Record the number of fragments that run, and whether the memory is used up."""
        before = self._state
        self._state = _State(fragments, is_short, self._oom_kills(), before.kill)
        if before.fragments and _has_risen(before, self._state):
            self._add_kill(before.fragments)
        if self._state != before:
            self._write()

    def stop(self) -> None:
        """Record that the worker stops, and was not killed."""
        if self._is_open:
            self.update(0, is_short=False)

    def _add_kill(self, fragments: int) -> None:
        former, now = self._state.kill, self._clock()
        limit = None if former is None else former.limit(now)
        repeats = 0
        if former is not None and limit is not None:
            if limit.fragments < former.fragments <= fragments:
                return  # the enabler has not applied the limit yet: it is still the same load
            repeats = former.repeats + 1
        log.error("memory_kill", fragments=fragments, repeats=repeats)
        self._state = msgspec.structs.replace(self._state, kill=Kill(now, fragments, repeats))

    def _write(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, msgspec.json.encode(self._state))
        except OSError as error:
            # Without the record, only the protection after a kill is missing.
            log.warning("kill_record_write_failed", reason=str(error))


def _read(path: Path) -> _State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError):
        return _State()


def _has_risen(before: _State, after: _State) -> bool:
    """Return whether the kernel has killed processes; a new control group counts from 0."""
    if before.oom_kills is None or after.oom_kills is None:
        return False
    return after.oom_kills > before.oom_kills
