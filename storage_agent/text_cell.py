"""A text in Ignite that is changed by compare-and-set only."""

from storage_agent.ignite_client import METADATA, IgniteClient


class TextCell:
    """The text of a key as it was last known; None: there is none."""

    def __init__(self, ignite: IgniteClient, key: str) -> None:
        self.key = key
        self.text: str | None = None
        self._ignite = ignite

    async def load(self) -> str | None:
        """Read the text."""
        self.text = await self._ignite.get(METADATA, self.key)
        return self.text

    async def swap(self, wanted: str) -> bool:
        """Put another text in its place; returns False where it is not what was known.

        Raises ``UnavailableError``: then it may have landed, or land later, so what is there is
        not known any more, and nothing is taken for it until it is loaded.
        """
        try:
            if self.text is None:
                swapped = await self._ignite.put_if_absent(METADATA, self.key, wanted)
            else:
                swapped = await self._ignite.replace(METADATA, self.key, self.text, wanted)
        except BaseException:
            self.text = ""
            raise
        if swapped:
            self.text = wanted
        return swapped
