"""A text and the values that its author expects."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.analytics_worker.conformance.independent.tables import Table


@dataclass(frozen=True)
class Expectation:
    """The expected values of the last insight of a text.

    ``reference``: the sentence that decides the values, from ``docs/language.md``. ``values``
    computes them; None: only the oracle does. ``tolerance``: relative.
    """

    text: str
    reference: str
    values: Callable[[], Table] | None = None
    tolerance: float = 1e-9

    @property
    def name(self) -> str:
        """The name of the last insight."""
        return self.text.rsplit("= COMPUTE", 1)[0].split()[-1]
