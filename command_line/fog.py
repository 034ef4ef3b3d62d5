"""``mistbow fog``: an emulated fog of containers on this machine.

Each command imports its modules only when it runs, since every service starts through this package.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Emulate a fog on this machine, in containers.")

_out = Console()

File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A Fogify file.")
]
Scenario = Annotated[str, typer.Argument(help="The name of a scenario in the file.")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip and list settings that this machine cannot apply.")
]


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


@app.command()
def down(file: File) -> None:
    """Remove the fog of a file with its data."""
    from fog_emulation import operations

    operations.remove(file)
