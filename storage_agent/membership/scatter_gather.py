"""Scatter-gather: sends a read to the agents of several sites, and collects their answers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from mistbow.client.agent_model import Missing
from mistbow.errors import (
    ForbiddenError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    TooLargeError,
)
from mistbow.fabric import Site
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.network import post_request

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_CALLER_ERRORS = (ForbiddenError, InvalidRequestError, NotFoundError, TooLargeError)
"""The errors that a request itself causes; all other errors are caused by the answering site."""


class SiteFailover(Protocol):
    """Answers a read in place of another site, from replicas of that site's data."""

    async def answer_nearby(self, site: Site) -> bytes | None:
        """Return an answer from a recent replica of ``site`` that this site stores.

        Returns None if this site stores no recent replica.
        """
        ...

    async def answer_instead(self, site: Site, reason: str) -> bytes:
        """Return an answer from replicas in place of ``site``.

        ``reason``: why ``site`` did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class ScatterRequest(Generic[T_co]):
    """A POST request with the JSON ``body``, which is sent to ``path`` at each site's agent.

    ``local``: returns the answer of this site. ``decode``: decodes the answer of a site.
    ``failover``: answers from replicas in place of a site that does not answer; None: the nodes of
    such a site are reported as missing. ``allow_not_found``: True: 404 answers are returned in
    ``ScatterAnswers.not_found``; False: a 404 answer raises ``NotFoundError``.
    """

    path: str
    body: bytes
    local: Callable[[], Awaitable[bytes]]
    decode: Callable[[bytes], T_co]
    failover: SiteFailover | None = None
    allow_not_found: bool = False


@dataclass(frozen=True, slots=True)
class ScatterAnswers(Generic[T]):
    """The decoded answers of all sites that answered; this site's answer is the first.

    ``missing``: the nodes of sites without a usable answer, and the unknown names. ``not_found``:
    the 404 answers.
    """

    found: list[T]
    missing: tuple[Missing, ...]
    not_found: tuple[NotFoundError, ...] = ()


def resolve_sites(
    names: Collection[str], membership: FabricMembership
) -> tuple[list[Site], tuple[Missing, ...]]:
    """Return (sites that ``names`` selects, names that are unknown).

    ``names``: names of sites or nodes; if empty, all sites are selected. This site is the first in
    the result if it is selected.
    """
    named = frozenset(names)
    sites = [
        site for site in membership.fabric().sites if not named or named & {site.name, site.node}
    ]
    sites.sort(key=lambda site: site.name != membership.site)
    unknown = named - {name for site in sites for name in (site.name, site.node)}
    return sites, tuple(Missing(name, "no node or site has this name") for name in sorted(unknown))


async def scatter(
    names: Collection[str], membership: FabricMembership, request: ScatterRequest[T]
) -> ScatterAnswers[T]:
    """Send a request concurrently to the sites that ``names`` selects, and return their answers.

    ``names``: names of sites or nodes; if empty, all sites are selected. In the result, ``missing``
    lists the nodes of sites that returned no usable answer, and the unknown names.
    """
    sites, unknown = resolve_sites(names, membership)
    answers = await asyncio.gather(*(_decoded_answer(request, site, membership) for site in sites))
    found: list[T] = []
    missing: list[Missing] = []
    not_found: list[NotFoundError] = []
    for answer in answers:
        match answer:
            case Missing():
                missing.append(answer)
            case NotFoundError():
                not_found.append(answer)
            case _:
                found.append(answer)
    return ScatterAnswers(found, (*missing, *unknown), tuple(not_found))


async def _decoded_answer(
    request: ScatterRequest[T], site: Site, membership: FabricMembership
) -> T | Missing | NotFoundError:
    try:
        answer = await _answer(request, site, membership)
        if isinstance(answer, Missing):
            return answer
        # In a thread, since its stack is empty: an answer that was stored before the depth of
        # requests was bounded may be nested too deeply for the rest of the present stack.
        return await asyncio.to_thread(request.decode, answer)
    except NotFoundError as error:
        if not request.allow_not_found:
            raise
        return error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Missing(site.node, f"the agent's answer cannot be decoded: {error}")


async def _answer(
    request: ScatterRequest[T], site: Site, membership: FabricMembership
) -> bytes | Missing:
    if site.name == membership.site:
        return await request.local()
    failover = request.failover
    if failover is not None and (nearby := await failover.answer_nearby(site)) is not None:
        return nearby
    try:
        call = post_request(site.name, request.path, request.body)
        return await membership.network.read(call)
    except _CALLER_ERRORS:
        raise
    except MistbowError as error:
        if failover is not None:
            return await failover.answer_instead(site, error.message)
        return Missing(site.node, error.message)
