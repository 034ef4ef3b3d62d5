"""Schedulers by name: the entry points of the group ``mistbow.schedulers``."""

from analytics.packages import declared_in
from analytics_enabler.scheduling.interface import Scheduler
from mistbow.errors import InvalidRequestError

GROUP = "mistbow.schedulers"


def scheduler_names() -> list[str]:
    """Return the names of the installed schedulers, sorted."""
    return sorted({entry.name for entry in declared_in(GROUP)})


def entry_points_of(name: str) -> list[str]:
    """Return the classes (``module:Class``) that packages declare as the scheduler ``name``."""
    return [entry.value for entry in declared_in(GROUP) if entry.name == name]


def load_scheduler(name: str) -> Scheduler:
    """Return a new instance of the scheduler ``name``.

    Raises ``InvalidRequestError`` if no package, or more than one package, declares the name.
    """
    entries = {entry.value: entry for entry in declared_in(GROUP) if entry.name == name}
    if not entries:
        installed = ", ".join(scheduler_names())
        raise InvalidRequestError(f"there is no scheduler {name!r}; installed: {installed}")
    if len(entries) > 1:
        raise InvalidRequestError(
            f"scheduler {name!r} is declared by several packages: {', '.join(sorted(entries))}",
            hint="Uninstall all of these packages but one.",
        )
    (entry,) = entries.values()
    scheduler: Scheduler = entry.load()()
    return scheduler
