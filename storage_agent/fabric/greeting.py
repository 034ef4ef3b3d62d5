"""What agents of different sites say when they greet each other, each second."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.errors import InvalidRequestError
from mistbow.settings import is_service_url, is_site_name

_Text = Annotated[str, Meta(min_length=1, max_length=500)]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Another site that the greeter knows; whether it reaches it straight, and how fast."""

    site: _Text
    node: _Text
    url: _Text
    reached: bool
    latency_ms: float | None = None


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, named by its site; ``instance`` is this run of it."""

    site: _Text
    node: _Text
    url: _Text
    instance: _Text
    knows: Annotated[tuple[Known, ...], Meta(max_length=10_000)] = ()


def check_greeting(greeting: Greeting) -> None:
    """Refuse a greeting with names or addresses that are none."""
    named = [(greeting.site, greeting.url), *((each.site, each.url) for each in greeting.knows)]
    for site, url in named:
        if not is_site_name(site):
            raise InvalidRequestError(f"{site!r} is no name of a site")
        if not is_service_url(url):
            raise InvalidRequestError(f"{url!r} is no address of the form http://HOST:PORT")
