"""Schedulers by name: the entry points of the group ``mistbow.schedulers``."""

from mistbow.errors import InvalidRequestError
from mistbow.packages import declared_in
from mistbow.schedulers.interface import Scheduler

GROUP = "mistbow.schedulers"


def names() -> list[str]:
    """Return the name of every scheduler that is installed."""
    return sorted({entry.name for entry in declared_in(GROUP)})


def places_of(name: str) -> list[str]:
    """Return where the schedulers of this name are, as ``module:Class``."""
    return [entry.value for entry in declared_in(GROUP) if entry.name == name]


def load(name: str) -> Scheduler:
    """Return a new scheduler; raises ``InvalidRequestError`` if not exactly one has this name."""
    found = {entry.value: entry for entry in declared_in(GROUP) if entry.name == name}
    if not found:
        raise InvalidRequestError(f"no scheduler {name!r}; there are: {', '.join(names())}")
    if len(found) > 1:
        raise InvalidRequestError(f"scheduler {name!r} is several: {', '.join(sorted(found))}")
    (entry,) = found.values()
    scheduler: Scheduler = entry.load()()
    return scheduler
