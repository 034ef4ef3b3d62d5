"""The first of many names as a text, for errors and reasons."""

from collections.abc import Sequence


def first_names(names: Sequence[str], limit: int) -> str:
    """Return the first ``limit`` names, and the number of the others.

    >>> first_names(["a", "b"], 2), first_names(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
