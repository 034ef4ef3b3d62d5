"""The checks of the parameters in URLs: they are known, and occur once unless they are lists."""

import difflib
from collections.abc import Awaitable, Callable, Collection

from fastapi import Request

from mistbow.errors import InvalidRequestError

LISTS = frozenset({"match", "match[]"})
"""The parameters that may be repeated: each one selects more."""


async def reject_repeated_parameters(request: Request) -> None:
    """Raise ``InvalidRequestError`` if the URL has a parameter twice; a service would use one."""
    if b"&" not in request.scope["query_string"]:
        return
    seen = set()
    for name, _ in request.query_params.multi_items():
        if name in seen and name not in LISTS:
            raise InvalidRequestError(
                f"{name[:40]}: the URL has this parameter more than once, and nothing was done",
                hint=f"Send {name[:40]} once.",
            )
        seen.add(name)


def reject_unknown_parameters(request: Request, known: Collection[str] = ("site",)) -> None:
    """Raise ``InvalidRequestError`` if the URL of a change has an unknown parameter or no site.

    ``known``: the names of the parameters that the request has. A misspelled parameter would have
    no effect, so that a deletion deletes more, or a change is made that the client did not mean.
    With an empty ``site``, a deletion would apply to this site, which the client may not mean.
    """
    if "site" in known and "" in request.query_params.getlist("site"):
        raise InvalidRequestError(
            "site: the name of the site is empty, and nothing was done",
            hint="Name a site, or omit the parameter: the agent's own site is then meant.",
        )
    for name in request.query_params:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, 1)
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InvalidRequestError(
                f"{name[:40]}: this request has no such parameter, and nothing was done",
                hint=f"Did you mean {near[0]}?" if near else has,
            )


def only_parameters(*known: str) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency of a route that changes something: see ``reject_unknown_parameters``."""

    async def check(request: Request) -> None:
        reject_unknown_parameters(request, known)

    return check
