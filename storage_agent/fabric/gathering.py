"""Answering a /get over nodes: each site's agent is asked, and the answers are put together."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from mistbow.errors import UnavailableError
from mistbow.fabric import Site
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import Outgoing
from storage_agent.monitoring.bodies import GetBody
from storage_agent.monitoring.extraction import choice_of

_READ_S = 27.0

Here = Callable[[GetBody], Awaitable[bytes]]
"""Answers for this node."""


class _Missing(msgspec.Struct, frozen=True):
    """A node that was asked for, and why it has no part in the answer."""

    node: str
    reason: str


class _Gathered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of ``monitoring`` each item is one node's, and stays as that node wrote it."""

    monitoring: tuple[msgspec.Raw, ...]
    missing: tuple[_Missing, ...] = ()


_GATHERED = msgspec.json.Decoder(_Gathered)


async def gather(body: GetBody, member: Member, here: Here) -> bytes:
    """Return the JSON answer of the nodes that a body names; none but this one if it names none."""
    if body.nodes is None:
        return await here(body)
    names = choice_of(body.nodes)
    sites = member.fabric().sites
    chosen = [site for site in sites if not names or names & {site.name, site.node}]
    alone = msgspec.structs.replace(body, nodes=None)
    # This node first.
    chosen.sort(key=lambda site: site.name != member.site)
    parts = await asyncio.gather(*(_ask(alone, site, member, here) for site in chosen))
    nobody = names - {name for site in chosen for name in (site.name, site.node)}
    unknown = [_Missing(name, "no node or site has this name") for name in sorted(nobody)]
    return msgspec.json.encode(
        _Gathered(
            tuple(item for part in parts for item in part.monitoring),
            (*(item for part in parts for item in part.missing), *unknown),
        )
    )


async def _ask(body: GetBody, site: Site, member: Member, here: Here) -> _Gathered:
    if site.name == member.site:
        return _GATHERED.decode(await here(body))
    call = Outgoing(
        site.name,
        "POST",
        f"/get?site={site.name}".encode(),
        headers={"Content-Type": "application/json"},
        content=msgspec.json.encode(body),
        wait_s=_READ_S,
    )
    try:
        answer = await member.network.send(call)
        return _GATHERED.decode(await answer.read())
    except UnavailableError as error:
        return _Gathered((), (_Missing(site.node, error.message),))
