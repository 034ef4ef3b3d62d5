"""A text in Ignite that only compare-and-set operations change."""

from storage_agent.ignite.client import METADATA, IgniteClient, size_of


class TextCell:
    """A text that is stored under a key in Ignite's cache ``metadata``.

    ``text``: the text that was last read or written; None: the key has no value. ``size``: the size
    of this text (bytes).
    """

    def __init__(self, ignite: IgniteClient, key: str) -> None:
        self.key = key
        self.text: str | None = None
        self.size = 0
        self._ignite = ignite

    async def load(self) -> str | None:
        """Read the text from Ignite, and return the text; None: the key has no value."""
        self.text = await self._ignite.get(METADATA, self.key)
        self.size = size_of(self.text or "")
        return self.text

    async def swap(self, new: str) -> bool:
        """Replace the text with ``new``, and return True.

        If the text in Ignite differs from ``text``, changes nothing, and returns False. After an
        ``UnavailableError``, the write may have happened, or may happen later; ``swap`` then
        returns False until ``load`` is called.
        """
        try:
            if self.text is None:
                swapped = await self._ignite.put_if_absent(METADATA, self.key, new)
            else:
                swapped = await self._ignite.replace(METADATA, self.key, self.text, new)
        except BaseException:
            self.text = ""
            raise
        if swapped:
            self.text, self.size = new, size_of(new)
        return swapped
