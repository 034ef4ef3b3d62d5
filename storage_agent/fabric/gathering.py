"""Asking nodes: each site's agent answers for its own, and the answers are put together."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from mistbow.errors import (
    ForbiddenError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    TooLargeError,
)
from mistbow.fabric import Site
from mistbow.http.shortcut import Content
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import post_to
from storage_agent.monitoring.bodies import GetBody, Some
from storage_agent.monitoring.extraction import choice_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_OF_THE_QUESTION = (ForbiddenError, InvalidRequestError, NotFoundError, TooLargeError)
"""Errors that are the asker's; all others are troubles of the site that answers so."""

Here = Callable[[GetBody], Awaitable[Content]]
"""Answers for this node."""


class Missing(msgspec.Struct, frozen=True):
    """A node that was asked for, and why it has no part in the answer."""

    node: str
    reason: str


class Source(msgspec.Struct, frozen=True, kw_only=True, rename={"at": "from"}, omit_defaults=True):
    """A node for which what is at another site answered: all that is not younger than that."""

    node: str
    at: str
    stale_ms: int | None = None


class Replicas(Protocol):
    """What gathering asks of replication."""

    def count_read(self, body: GetBody) -> None:
        """Take note of a read of this node."""
        ...

    def stand_in(self, body: GetBody) -> "StandIn":
        """Return what stands in for sites that a /get or a /query asks."""
        ...


class StandIn(Protocol):
    """Answers for sites from replicas."""

    async def near(self, site: Site) -> bytes | None:
        """Answer in place of a site that may well be there; None: ask it."""
        ...

    async def instead(self, site: Site, reason: str) -> bytes:
        """Answer in place of a site that does not, for a reason."""
        ...


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """What each site's agent is asked: a POST of the JSON ``body`` to ``path``.

    ``here`` answers the same for this node, ``stand_in`` for others, if it is there; ``decode``
    reads what they answer. With ``may_lack`` a site that does not know what is asked about simply
    has none of it.
    """

    path: str
    body: bytes
    here: Callable[[], Awaitable[bytes]]
    decode: Callable[[bytes], T_co]
    stand_in: StandIn | None = None
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What sites answered, this one first; and who did not, and why.

    ``lacking``: how those answered that do not know what was asked about.
    """

    found: list[T]
    missing: tuple[Missing, ...]
    lacking: tuple[NotFoundError, ...] = ()


class _Gathered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of ``monitoring`` each item is one node's, and stays as that node wrote it."""

    monitoring: tuple[msgspec.Raw, ...]
    missing: tuple[Missing, ...] = ()


_GATHERED = msgspec.json.Decoder(_Gathered)


async def gather(body: GetBody, member: Member, here: Here, replicas: Replicas) -> Content:
    """Return the JSON answer of the nodes that a body names; none but this one if it names none."""
    if body.nodes is None:
        replicas.count_read(body)
        return await here(body)
    alone = msgspec.structs.replace(body, nodes=None)

    async def whole() -> bytes:
        content = await here(alone)
        if isinstance(content, bytes):
            return content
        return await asyncio.to_thread(b"".join, content)

    content, stand_in = msgspec.json.encode(alone), replicas.stand_in(alone)
    question = Question("/get", content, whole, _GATHERED.decode, stand_in)
    answers = await ask(body.nodes, member, question)
    items = tuple(item for part in answers.found for item in part.monitoring)
    missing = tuple(each for part in answers.found for each in part.missing)
    return msgspec.json.encode(_Gathered(items, missing + answers.missing))


def chosen_sites(nodes: Some, member: Member) -> tuple[list[Site], tuple[Missing, ...]]:
    """Return the sites of nodes, this one first, and the names that nobody has; none: all sites."""
    names = choice_of(nodes)
    sites = [site for site in member.fabric().sites if not names or names & {site.name, site.node}]
    sites.sort(key=lambda site: site.name != member.site)
    nobody = names - {name for site in sites for name in (site.name, site.node)}
    unknown = (Missing(name, "no node or site has this name") for name in sorted(nobody))
    return sites, tuple(unknown)


async def ask(nodes: Some, member: Member, question: Question[T]) -> Answers[T]:
    """Ask the sites of nodes, all at once; a site that has no good answer is told as missing."""
    sites, unknown = chosen_sites(nodes, member)
    answers = await asyncio.gather(*(_answer(question, site, member) for site in sites))
    found: list[T] = []
    missing: list[Missing] = []
    lacking: list[NotFoundError] = []
    for answer in answers:
        match answer:
            case Missing():
                missing.append(answer)
            case NotFoundError():
                lacking.append(answer)
            case _:
                found.append(answer)
    return Answers(found, (*missing, *unknown), tuple(lacking))


async def _answer(question: Question[T], site: Site, member: Member) -> T | Missing | NotFoundError:
    try:
        answer = await _ask(question, site, member)
        if isinstance(answer, Missing):
            return answer
        # In a thread, whose stack is all free: what is nested as deeply as a request may be, and
        # was stored before there was a bound, can be read there.
        return await asyncio.to_thread(question.decode, answer)
    except NotFoundError as error:
        if not question.may_lack:
            raise
        return error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Missing(site.node, f"what it answers cannot be read: {error}")


async def _ask(question: Question[T], site: Site, member: Member) -> bytes | Missing:
    if site.name == member.site:
        return await question.here()
    stand_in = question.stand_in
    if stand_in is not None and (near := await stand_in.near(site)) is not None:
        return near
    call = post_to(site.name, question.path, question.body)
    try:
        return await (await member.network.send(call)).read()
    except _OF_THE_QUESTION:
        raise
    except MistbowError as error:
        if stand_in is not None:
            return await stand_in.instead(site, error.message)
        return Missing(site.node, error.message)
