"""The heads that this agent remembers, in a file beside Ignite, so that a loss shows."""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mistbow.errors import ConflictError, MistbowError

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Remembered(msgspec.Struct, frozen=True):
    """``heads`` are by a log's key, of the logs of ``store``; None: nobody noted which that is.

    ``boot`` names the time since this machine was started.
    """

    boot: str = ""
    heads: dict[str, int] = {}
    store: str | None = None


class Heads:
    """A head of each stream that Ignite had acknowledged: perhaps an old one, never a later one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told: dict[str, int] = {}

    def load(self, *, of_this_boot: bool) -> Remembered:
        """Return what is remembered; ``of_this_boot``: nothing from before the machine started.

        Raises ``MistbowError`` if the file cannot be read.
        """
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Remembered)
        except FileNotFoundError:
            return Remembered()
        except (OSError, msgspec.DecodeError) as error:
            raise MistbowError(
                f"{self._path} cannot be read: {error}",
                hint="It says how long streams were. Without it, what they lost would not show.",
            ) from error
        return Remembered() if of_this_boot and kept.boot != _boot() else kept

    def save(
        self,
        store: str,
        heads: Mapping[str, int],
        over: Collection[str] = (),
        *,
        of_this_boot: bool = False,
    ) -> None:
        """Remember heads, and forget logs that are ``over``; no head ever becomes a lower one.

        What was remembered by others stays, but of logs that were told before and are not any more.
        After a crash all of this is there, or what was before. Raises ``ConflictError`` if what is
        remembered is of another store.
        """
        if heads == self._told and not over:
            return
        over = {*over, *(self._told.keys() - heads.keys())}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            kept = self.load(of_this_boot=of_this_boot)
            if kept.store not in (None, store):
                raise ConflictError(f"{self._path} is of another store")
            merged = {key: head for key, head in kept.heads.items() if key not in over}
            for key, head in heads.items():
                merged[key] = max(head, merged.get(key, 0))
            self._write(Remembered(_boot(), merged, store))
        self._told = dict(heads)

    def _write(self, remembered: Remembered) -> None:
        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(remembered))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only one who changes the file: an agent that was replaced may live on a while."""
        with self._path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
