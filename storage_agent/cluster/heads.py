"""The heads that this agent remembers, in a file beside Ignite, so that a loss shows."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mistbow.errors import MistbowError

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class _Kept(msgspec.Struct, frozen=True):
    """``boot`` names the time since this machine was started, ``heads`` are by a log's key."""

    boot: str
    heads: dict[str, int]


class Heads:
    """A head of each stream that Ignite had acknowledged: perhaps an old one, never a later one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored: dict[str, int] | None = None

    def load(self, *, of_this_boot: bool) -> dict[str, int]:
        """Return what is remembered; ``of_this_boot``: nothing from before the machine started.

        Raises ``MistbowError`` if the file cannot be read.
        """
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise MistbowError(
                f"{self._path} cannot be read: {error}",
                hint="It says how long streams were. Without it, what they lost would not show.",
            ) from error
        return {} if of_this_boot and kept.boot != _boot() else dict(kept.heads)

    def save(self, heads: Mapping[str, int]) -> None:
        """Remember these instead; after a crash these are there, or those from before."""
        if heads == self._stored:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(_Kept(_boot(), dict(heads))))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        self._stored = dict(heads)


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
