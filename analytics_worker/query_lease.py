"""The lease of a query: the epochs under which the query writes.

A query that replaces another one starts without epochs, beside the other query, and receives them
at the handover. Until then, it cannot write beyond the frontier that the other query has reached.
The sink and the sources of a query run in processes of the engine, so a folder contains the state
of the lease. See docs/adr/0023.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from analytics.plan.fragments import StreamLocation
from analytics_worker.agent_clients import agent_client
from mistbow.errors import FencedError, UnavailableError
from mistbow.files import write_file

T = TypeVar("T")

_EPOCHS = "epochs"
_REQUEST = "request"
_ORPHANS = "orphans"
_POLL_S = 0.05
_MAX_CLAIMS = 5
"""How often other writers may claim a stream in a row while a query without epochs appends."""


class QueryLease(msgspec.Struct, frozen=True):
    """The lease of one query on the streams of its fragment.

    ``url``: the agent's address. ``target``: the fragment's target. ``folder``: an absolute path.
    """

    url: str
    target: StreamLocation
    folder: str

    @classmethod
    def create(cls, url: str, target: StreamLocation, parent: Path) -> "QueryLease":
        """Create a lease without epochs, in a new folder in ``parent``."""
        folder = parent / f"lease-{uuid.uuid4().hex}"
        folder.mkdir()
        return cls(url, target, str(folder))

    def delete(self) -> None:
        """Delete the folder; later writes of the query fail."""
        # In one step: the query must not find its folder without the epochs.
        deleted = f"{self.folder}.deleted"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.folder, deleted)
        shutil.rmtree(deleted, ignore_errors=True)

    @property
    def epochs(self) -> Mapping[str, int] | None:
        """The epochs: stream -> epoch; None: another query may still write the streams.

        Raises ``UnavailableError`` if the query has ended.
        """
        try:
            text = Path(self.folder, _EPOCHS).read_bytes()
        except FileNotFoundError:
            self._check_folder()
            return None
        return msgspec.json.decode(text, type=dict[str, int])

    def grant(self, epochs: Mapping[str, int]) -> None:
        """Permit the query to write under these epochs: stream -> epoch."""
        write_file(Path(self.folder, _EPOCHS), msgspec.json.encode(epochs))

    @property
    def orphaned_sites(self) -> Mapping[str, int]:
        """The sites with orphaned partial fragments: site -> number of the order that lists the
        fragment.
        """
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode(
                Path(self.folder, _ORPHANS).read_bytes(), type=dict[str, int]
            )
        return {}

    def note_orphaned_sites(self, sites: Mapping[str, int]) -> None:
        """Set ``orphaned_sites``; without effect on a query that has ended, or on a full disk."""
        if not sites:
            return
        with contextlib.suppress(OSError):
            write_file(Path(self.folder, _ORPHANS), msgspec.json.encode(sites))

    @property
    def is_requested(self) -> bool:
        """Whether the query cannot continue without epochs."""
        return Path(self.folder, _REQUEST).exists()

    def request(self) -> None:
        """Request epochs, because the query cannot continue without them."""
        try:
            Path(self.folder, _REQUEST).touch()
        except FileNotFoundError:
            self._check_folder()

    def _check_folder(self) -> None:
        if not Path(self.folder).is_dir():
            raise UnavailableError("the query has ended, and writes nothing any more")

    def wait(self, tick: int) -> None:
        """Wait until the query has epochs, or the target's frontier has reached ``tick`` (ms).

        In the second case, another query has written everything up to ``tick``. Raises
        ``UnavailableError`` if the query has ended.
        """
        while self.epochs is None and self._frontier() < tick:
            self.request()
            time.sleep(_POLL_S)

    def append(self, location: StreamLocation, append: Callable[[int], T]) -> T:
        """Call ``append`` with the epoch for a stream, and return the result.

        Without epochs of its own, the query appends under the present epoch of the stream, beside
        the query with this epoch. Raises ``FencedError`` if another writer has claimed the stream
        after the query has received epochs.
        """
        for _ in range(_MAX_CLAIMS):
            epochs = self.epochs
            if epochs is not None:
                return append(epochs[location.stream])
            present = agent_client(self.url, location.site).info(location.stream).epoch
            # Another writer may claim the stream just now.
            with contextlib.suppress(FencedError):
                return append(present)
        raise UnavailableError(f"the stream {location.stream} changes its writer too often")

    def _frontier(self) -> int:
        return agent_client(self.url, self.target.site).info(self.target.stream).frontier
