"""The mark of a drained worker: an empty private file that survives restarts."""

import os
from pathlib import Path


class DrainMark:
    """The mark that a worker is drained; ``is_set``: whether the mark exists.

    ``path``: the file; ``set`` creates its folder if necessary.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_set = path.exists()

    def set(self) -> None:
        """Set the mark."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        self.is_set = True

    def clear(self) -> None:
        """Remove the mark if it exists."""
        self._path.unlink(missing_ok=True)
        self.is_set = False
