"""The sites that do not answer during a step of a corrector."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from analytics.plan.fragments import StreamLocation
from mistbow.errors import UnavailableError


@dataclass(frozen=True, slots=True, eq=False)
class SilentSites:
    """The sites that did not answer in one step, as sets: at least one site of a set is silent.

    They are asked once in a step, since each request to a silent site takes several timeouts.
    """

    _sets: set[frozenset[str]] = field(default_factory=set)

    def check(self, locations: Iterable[StreamLocation]) -> None:
        """Raise ``UnavailableError`` if one of the streams is certainly at a silent site."""
        sites = _sites_of(locations)
        if silent := next((each for each in self._sets if each <= sites), None):
            raise UnavailableError(f"no answer from the site: {' or '.join(sorted(silent))}")

    @contextmanager
    def asking(self, *locations: StreamLocation) -> Iterator[None]:
        """Add the sites of streams if the ``with`` block, which asks them, raises
        ``UnavailableError``.
        """
        try:
            yield
        except UnavailableError:
            self._sets.add(_sites_of(locations))
            raise


def _sites_of(locations: Iterable[StreamLocation]) -> frozenset[str]:
    return frozenset(location.site for location in locations)
