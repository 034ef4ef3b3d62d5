"""The sites that do not answer during a step of a corrector."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from analytics.plan.fragments import StreamLocation
from mistbow.errors import UnavailableError


@dataclass(frozen=True, slots=True, eq=False)
class SilentSites:
    """The sites that did not answer in one step.

    Each stream of a silent site is asked once in a step, since a request to a silent site takes
    several timeouts. At least one stream of each set is at a silent site.
    """

    _sets: set[frozenset[StreamLocation]] = field(default_factory=set)

    def check(self, locations: Iterable[StreamLocation]) -> None:
        """Raise ``UnavailableError`` if one of the streams is certainly at a silent site."""
        streams = frozenset(locations)
        if silent := next((each for each in self._sets if each <= streams), None):
            sites = sorted({location.data_site for location in silent})
            raise UnavailableError(f"no answer from the site: {' or '.join(sites)}")

    @contextmanager
    def asking(self, *locations: StreamLocation) -> Iterator[None]:
        """Add streams if the ``with`` block, which asks for them, raises ``UnavailableError``."""
        try:
            yield
        except UnavailableError:
            self._sets.add(frozenset(locations))
            raise
