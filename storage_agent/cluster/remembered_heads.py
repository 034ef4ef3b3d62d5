"""A file outside Ignite that stores the last heads of the streams, to detect lost rows."""

import fcntl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mistbow.errors import ConflictError, MistbowError
from mistbow.files import write_file

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class RememberedHeads(msgspec.Struct, frozen=True):
    """The saved heads of the streams in a store; a store is the data of one site in Ignite.

    ``heads``: key of a stream's log -> head. ``store``: the name of the store; None: no name was
    saved. ``boot``: the boot id of the machine when the heads were saved.
    """

    boot: str = ""
    heads: dict[str, int] = {}
    store: str | None = None


class HeadFile:
    """A file with the last saved head of each stream.

    A saved head may be outdated, but is never greater than the real head at the time of saving.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved: dict[str, int] = {}

    def load(self, *, of_this_boot: bool) -> RememberedHeads:
        """Return the heads in the file; if there is no file, return no heads.

        ``of_this_boot``: ignore heads that were saved before the machine booted. Raises
        ``MistbowError`` if the file cannot be read.
        """
        try:
            loaded = msgspec.json.decode(self._path.read_bytes(), type=RememberedHeads)
        except FileNotFoundError:
            return RememberedHeads()
        except (OSError, msgspec.DecodeError) as error:
            raise MistbowError(
                f"{self._path} cannot be read: {error}",
                hint="The file contains the heads of the streams: without it, a loss of rows "
                "would not be detected.",
            ) from error
        return RememberedHeads() if of_this_boot and loaded.boot != _boot_id() else loaded

    def save(
        self,
        store: str,
        heads: Mapping[str, int],
        deleted: Collection[str] = (),
        *,
        of_this_boot: bool = False,
    ) -> None:
        """Save heads of streams, and remove the heads of deleted streams.

        ``heads``: key of a stream's log -> head. ``deleted``: the keys of the logs of deleted
        streams. A saved head is never lowered. Heads that another process saved are retained. Heads
        that this process saved earlier are removed if ``heads`` no longer contains them. The file
        is replaced atomically. Raises ``ConflictError`` if the file belongs to another store.
        """
        if heads == self._saved and not deleted:
            return
        deleted = {*deleted, *(self._saved.keys() - heads.keys())}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock():
            loaded = self.load(of_this_boot=of_this_boot)
            if loaded.store not in (None, store):
                raise ConflictError(
                    f"the file {self._path} contains heads of another store than Ignite's"
                )
            merged = {key: head for key, head in loaded.heads.items() if key not in deleted}
            for key, head in heads.items():
                merged[key] = max(head, merged.get(key, 0))
            content = RememberedHeads(_boot_id(), merged, store)
            write_file(self._path, msgspec.json.encode(content))
        self._saved = dict(heads)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the file during the block: a replaced agent may still run and write to the file."""
        with self._path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
