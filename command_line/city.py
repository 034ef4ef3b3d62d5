"""``mistbow city``: sends the points of a city's buses to storage agents, as a realistic load.

The command imports its modules only when it runs, since every service starts through this package.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from command_line.options import Token
from mistbow.clock import system_clock
from mistbow.flags import bearer_token, ca_file

if TYPE_CHECKING:
    from city_workload import City, DeliveryCount, SenderToken
    from mistbow.client.service_client import Token as Credentials

Urls = Annotated[
    list[str], typer.Argument(metavar="URL...", help="Storage agents, from west to east.")
]
Regions = Annotated[str, typer.Option(help="The city's regions, from west to east.")]
Rate = Annotated[float, typer.Option(help="Points per second of all buses together.")]
Vehicles = Annotated[int, typer.Option(help="The number of buses.")]
Seconds = Annotated[int, typer.Option(min=0, help="Duration (s); 0: until stopped.")]
Seed = Annotated[int, typer.Option(help="Seed: equal seeds give equal points.")]
Agents = Annotated[
    int | None,
    typer.Option(
        envvar="MISTBOW_CITY_AGENTS",
        min=1,
        help="The number of storage agents that exist, from the first one on: the buses of all "
        "regions send to these agents. By default, all exist.",
        show_default=False,
    ),
]
TokenFiles = Annotated[
    str,
    typer.Option(
        envvar="MISTBOW_TOKEN_FILES",
        help="Files with a bearer token for each agent, in their order: FILE,FILE. A changed file "
        "is read again.",
        show_default=False,
    ),
]


def city(
    urls: Urls,
    regions: Regions = "west,centre,east",
    rate: Rate = 200.0,
    vehicles: Vehicles = 50,
    seconds: Seconds = 60,
    seed: Seed = 1,
    token: Token = None,
    token_files: TokenFiles = "",
    agents: Agents = None,
) -> None:
    """Send the positions, passengers and delays of a city's buses to storage agents."""
    from city_workload import City

    existing = urls[:agents]
    tokens = (
        _tokens(urls, token_files, agents) if token_files else [bearer_token(token)] * len(existing)
    )
    names = tuple(name.strip() for name in regions.split(","))
    story = City(regions=names, vehicles=vehicles, rate=rate, seed=seed)
    sent = asyncio.run(_send(story, existing, tokens, seconds))
    console = Console()
    for region in names:
        stored, lost = sent.stored.get(region, 0), sent.lost.get(region, 0)
        console.print(f"{region}: {stored:,} points stored, {lost:,} lost", highlight=False)
    if any(sent.lost.values()):
        raise typer.Exit(1)


def _tokens(urls: list[str], files: str, agents: int | None) -> list["SenderToken"]:
    """Return the tokens for the agents that exist; ``agents``: their number, None: all."""
    from city_workload import SenderToken

    paths = [Path(each.strip()) for each in files.split(",")]
    if len(paths) != len(urls):
        raise typer.BadParameter(f"--token-files names {len(paths)} files for {len(urls)} agents")
    try:
        return [SenderToken(path) for path in paths[:agents]]
    except ValueError as error:
        raise typer.BadParameter(f"--token-files: {error}") from None


async def _send(
    story: "City", urls: list[str], tokens: "Sequence[Credentials]", seconds: int
) -> "DeliveryCount":
    from city_workload import batches, nearest_agents, send
    from mistbow.client import AsyncAgentClient

    agents = [
        AsyncAgentClient(url, token, ca=ca_file()) for url, token in zip(urls, tokens, strict=True)
    ]
    try:
        ticks = islice(
            batches(story, system_clock()), seconds * 1000 // story.tick_ms if seconds else None
        )
        return await send(ticks, nearest_agents(story.regions, agents))
    finally:
        for agent in agents:
            await agent.close()
