"""A text in Ignite that only compare-and-set operations change.

A write that Ignite has not answered may happen later. ``UnansweredWrites`` has the rule that keeps
memory and store equal nevertheless: Ignite makes such a write only if it finds the text that the
write expects, so no later write stores this text again. Once Ignite has another text than the
expected ones, no unanswered write can happen any more.
"""

from typing import Protocol

from storage_agent.ignite.client import METADATA, size_of
from storage_agent.ignite.errors import may_happen

_EMPTY = "{}"
"""The text that means the same as no value: all cells are JSON objects."""


class TextStore(Protocol):
    """The operations of ``IgniteClient`` that a cell needs."""

    async def get(self, cache: str, key: str) -> str | None:
        """Return the value of ``key``; None: ``key`` has no value."""
        ...

    async def put_if_absent(self, cache: str, key: str, value: str) -> bool:
        """Store ``value`` if ``key`` has no value; return whether ``value`` was stored."""
        ...

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        """Store ``new`` if the present value is ``old``; return whether ``new`` was stored."""
        ...


class UnansweredWrites:
    """The compare-and-set operations that Ignite has not answered, and that may happen later.

    Texts are JSON: with a space at the end, a text has the same meaning, but is another text.

    >>> writes = UnansweredWrites()
    >>> writes.add("{}", '{"epoch":1}')
    >>> writes.may_replace("{}"), writes.distinct("{}")
    (True, '{} ')
    >>> writes.may_replace("{} "), writes.have_stored('{"epoch":1}')
    (False, True)
    """

    def __init__(self) -> None:
        # Hashes, because a manifest has up to 5 MiB. An equal hash of another text adds a space.
        self._expected: set[int] = set()
        self._new: set[int] = set()

    def add(self, expected: str | None, new: str) -> None:
        """Add a write of ``new`` that expects the text ``expected``; None: no value."""
        self._expected.add(hash(expected))
        self._new.add(hash(new))

    def may_replace(self, text: str | None) -> bool:
        """Return whether one of the writes expects ``text``."""
        return hash(text) in self._expected

    def have_stored(self, text: str | None) -> bool:
        """Return whether ``text`` is the new text of one of the writes."""
        return hash(text) in self._new

    def distinct(self, text: str) -> str:
        """Return a text with the same meaning that none of the writes expects."""
        while self.may_replace(text):
            text += " "
        return text


class TextCell:
    """A text that is stored under a key in Ignite's cache ``metadata``.

    ``text``: the text that was last read or written; None: the key has no value. ``size``: the size
    of this text (bytes). ``is_uncertain``: whether Ignite may have another text, or may get another
    text by a write that it has not answered.
    """

    def __init__(self, ignite: TextStore, key: str) -> None:
        self.key = key
        self.text: str | None = None
        self.size = 0
        self.is_uncertain = False
        self._ignite = ignite
        self._unanswered = UnansweredWrites()

    async def load(self) -> str | None:
        """Read the text from Ignite, and return the text; None: the key has no value."""
        text = await self._ignite.get(METADATA, self.key)
        self._adopt(text)
        self.is_uncertain = self._unanswered.may_replace(text)
        return text

    async def swap(self, new: str) -> bool:
        """Replace the text with ``new``, and return True.

        If the text in Ignite differs from ``text``, changes nothing, and returns False; the caller
        must then call ``load``. ``new`` gets spaces at its end if an unanswered write expects it.
        After an ``UnavailableError``, the write may have happened, or may happen later.
        """
        before, new = self.text, self._unanswered.distinct(new)
        if new == before and not self.is_uncertain:
            return True
        try:
            swapped = await self._write(before, new)
        except BaseException as error:
            if may_happen(error):
                self._unanswered.add(before, new)
                self.is_uncertain = True
            raise
        self.is_uncertain = not swapped
        if swapped:
            self._adopt(new)
        return swapped

    async def settle(self, undo: str | None = None) -> str | None:
        """Return the text, after which no unanswered write happens any more.

        ``undo``: the text that replaces the text of an unanswered write; None: a text that Ignite
        has stored remains.
        """
        while self.is_uncertain:
            stored = await self.load()
            if undo is not None and self._unanswered.have_stored(stored):
                # Until the undo is stored, also if it cannot be sent.
                stored, self.is_uncertain = undo, True
            elif not self._unanswered.may_replace(stored):
                return stored
            await self.swap(_EMPTY if stored is None else stored)
        return self.text

    async def _write(self, before: str | None, new: str) -> bool:
        if before is None:
            return await self._ignite.put_if_absent(METADATA, self.key, new)
        return await self._ignite.replace(METADATA, self.key, before, new)

    def _adopt(self, text: str | None) -> None:
        self.text = text
        self.size = size_of(text or "")
