"""The check of the parameters in URLs: a parameter that is no list occurs once."""

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
