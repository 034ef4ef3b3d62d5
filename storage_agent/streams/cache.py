"""What was read or written last, within some bytes."""

from collections import OrderedDict
from typing import Any


class Cache:
    """Values by key, of at most so many bytes together; the longest unused go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def get(self, key: str) -> Any | None:
        """Return a value, if it is here."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: str, value: Any, size: int) -> None:
        """Keep a value, which takes so many bytes."""
        self.drop(key)
        self._values[key] = (value, size)
        self._bytes += size
        while self._bytes > self._most:
            _, (_, freed) = self._values.popitem(last=False)
            self._bytes -= freed

    def drop(self, key: str) -> None:
        """Forget a value."""
        known = self._values.pop(key, None)
        if known is not None:
            self._bytes -= known[1]
