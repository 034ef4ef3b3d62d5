"""Asking nodes: each site's agent answers for its own, and the answers are put together."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from mistbow.errors import NotFoundError, TooManyRequestsError, UnavailableError
from mistbow.fabric import Site
from mistbow.http.shortcut import Content
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import Outgoing
from storage_agent.monitoring.bodies import GetBody, Some
from storage_agent.monitoring.extraction import choice_of

_READ_S = 27.0

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
class Question:
    """What each site's agent is asked: a POST of the JSON ``body`` to ``path``.

    ``here`` answers the same for this node, ``stand_in`` for others, if it is there. With
    ``may_lack`` a site that does not know what is asked about simply has none of it.
    """

    path: str
    body: bytes
    here: Callable[[], Awaitable[bytes]]
    stand_in: StandIn | None = None
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What sites answered, as JSON, by name and this one first; and who did not, and why.

    ``lacking``: how those answered that do not know what was asked about.
    """

    found: dict[str, bytes]
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

    question = Question("/get", msgspec.json.encode(alone), whole, replicas.stand_in(alone))
    answers = await ask(body.nodes, member, question)
    parts = [_GATHERED.decode(part) for part in answers.found.values()]
    items = tuple(item for part in parts for item in part.monitoring)
    missing = tuple(each for part in parts for each in part.missing)
    return msgspec.json.encode(_Gathered(items, missing + answers.missing))


def chosen_sites(nodes: Some, member: Member) -> tuple[list[Site], tuple[Missing, ...]]:
    """Return the sites of nodes, this one first, and the names that nobody has; none: all sites."""
    names = choice_of(nodes)
    sites = [site for site in member.fabric().sites if not names or names & {site.name, site.node}]
    sites.sort(key=lambda site: site.name != member.site)
    nobody = names - {name for site in sites for name in (site.name, site.node)}
    unknown = (Missing(name, "no node or site has this name") for name in sorted(nobody))
    return sites, tuple(unknown)


async def ask(nodes: Some, member: Member, question: Question) -> Answers:
    """Ask the sites of nodes, all at once; a site that does not answer is told as missing."""
    sites, unknown = chosen_sites(nodes, member)
    answers = await asyncio.gather(*(_answer(question, site, member) for site in sites))
    found: dict[str, bytes] = {}
    missing: list[Missing] = []
    lacking: list[NotFoundError] = []
    for site, answer in zip(sites, answers, strict=True):
        match answer:
            case Missing():
                missing.append(answer)
            case NotFoundError():
                lacking.append(answer)
            case _:
                found[site.name] = answer
    return Answers(found, (*missing, *unknown), tuple(lacking))


async def _answer(
    question: Question, site: Site, member: Member
) -> bytes | Missing | NotFoundError:
    try:
        return await _ask(question, site, member)
    except NotFoundError as error:
        if not question.may_lack:
            raise
        return error


async def _ask(question: Question, site: Site, member: Member) -> bytes | Missing:
    if site.name == member.site:
        return await question.here()
    stand_in = question.stand_in
    if stand_in is not None and (near := await stand_in.near(site)) is not None:
        return near
    call = Outgoing(
        site.name,
        "POST",
        f"{question.path}?site={site.name}".encode(),
        headers={"Content-Type": "application/json"},
        content=question.body,
        wait_s=_READ_S,
    )
    try:
        return await (await member.network.send(call)).read()
    except (TooManyRequestsError, UnavailableError) as error:
        if stand_in is not None:
            return await stand_in.instead(site, error.message)
        return Missing(site.node, error.message)
