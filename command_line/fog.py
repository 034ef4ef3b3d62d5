"""``mistbow fog``: the fog as schedulers see it, simulated fogs, and emulated fogs of containers.

Each command imports its modules only when it runs, since every service starts through this package.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from command_line.enabler import (
    URL,
    Queries,
    Url,
    enabler_client,
    print_json,
    print_problems,
    read_queries,
)
from command_line.options import AsJson, Token

app = typer.Typer(
    no_args_is_help=True,
    help="Show the fog, plan placements, simulate schedulers, and emulate a fog in containers.",
)

_out = Console()

MAX_NODES = 10_000
MAX_INSIGHTS = 10_000
MAX_HOURS = 8784
"""The bounds of a simulation: all paths of 10,000 nodes take a GB of memory. A leap year."""

File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A Fogify file.")
]
Scenario = Annotated[str, typer.Argument(help="The name of a scenario in the file.")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip and list settings that this machine cannot apply.")
]


@app.command()
def show(url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Show the workers with their free capacity, and the links, as schedulers see them."""
    from command_line.fog_tables import fog_tables

    with enabler_client(url, token) as client:
        fog = client.fog()
    if as_json:
        print_json(fog.model_dump_json())
    else:
        for table in fog_tables(fog):
            _out.print(table)


@app.command()
def plan(
    queries: Queries,
    scheduler: Annotated[
        str | None, typer.Option(help="Place all insights by this scheduler.")
    ] = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the placement of queries, its reasons and its cost; exit with 1 on errors."""
    from command_line.fog_tables import plan_parts

    text = read_queries(queries)
    with enabler_client(url, token, text) as client:
        planned = client.plan(text, scheduler=scheduler)
    if as_json:
        print_json(planned.model_dump_json())
    else:
        print_problems(planned.problems, text)
        for part in plan_parts(planned):
            _out.print(part, highlight=False)
    if any(problem.severity == "error" for problem in planned.problems):
        raise typer.Exit(1)


@app.command()
def simulate(
    topology: Annotated[
        str,
        typer.Option(
            help="tiers, matrix:PATH (a CSV of round-trip times), or a file that mistbow fog show "
            "--json printed."
        ),
    ] = "tiers",
    nodes: Annotated[
        int, typer.Option(min=1, max=MAX_NODES, help="The number of generated nodes.")
    ] = 1000,
    insights: Annotated[
        int, typer.Option(min=1, max=MAX_INSIGHTS, help="The number of insights.")
    ] = 200,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="A scheduler, random, or greedy; repeat it to compare several."),
    ] = None,
    hours: Annotated[
        float, typer.Option(min=0.01, max=MAX_HOURS, help="The simulated hours.")
    ] = 24.0,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal results.")] = 1,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write results and a plot to this folder.")
    ] = None,
) -> None:
    """Compare schedulers on a simulated fog: latency, energy, cost, moves (docs/simulator.md)."""
    from analytics_enabler.simulation.engine import Scenario
    from analytics_enabler.simulation.engine import simulate as run_simulation
    from analytics_enabler.simulation.report import table, write

    simulations = [
        run_simulation(
            Scenario(
                topology=topology,
                scheduler=name,
                nodes=nodes,
                insights=insights,
                hours=hours,
                seed=seed,
            )
        )
        for name in dict.fromkeys(scheduler or ["fair", "latency"])
    ]
    _out.print(table(simulations))
    for path in write(simulations, out) if out is not None else ():
        _out.print(str(path), highlight=False, markup=False, soft_wrap=True)


@app.command()
def up(file: File, lenient: Lenient = False) -> None:
    """Start the fog of a file, and measure its links."""
    from fog_emulation import operations

    operations.start(file, _out, lenient=lenient)


@app.command()
def run(file: File, scenario: Scenario) -> None:
    """Run a scenario on a running fog."""
    from fog_emulation import operations

    if not operations.run(file, scenario, _out):
        raise typer.Exit(1)


@app.command("list")
def list_fogs() -> None:
    """List the emulated fogs on this machine, with the number of their nodes."""
    from fog_emulation import operations

    operations.show_fogs(_out)


@app.command()
def status(file: File) -> None:
    """Show the nodes of a running fog; exit with 1 unless all of them run."""
    from fog_emulation import operations

    if not operations.show_status(file, _out):
        raise typer.Exit(1)


@app.command()
def down(file: File) -> None:
    """Remove the fog of a file with its data."""
    from fog_emulation import operations

    operations.remove(file)
