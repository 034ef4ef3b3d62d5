"""``mistbow fog``: an emulated fog of containers on this machine.

What it needs is imported by each command: every service starts through this package.
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
    bool, typer.Option("--lenient", help="Leave out what this machine cannot do, and say so.")
]


@app.command()
def up(file: File, lenient: Lenient = False) -> None:
    """Start the fog of a file, and measure what was set."""
    from mistbow.fog_emulation import operate

    operate.start(file, _out, lenient=lenient)


@app.command()
def run(file: File, scenario: Scenario) -> None:
    """Run a scenario on the fog that is up."""
    from mistbow.fog_emulation import operate

    if not operate.run(file, scenario, _out):
        raise typer.Exit(1)


@app.command()
def down(file: File) -> None:
    """Remove all that is of the fog of a file."""
    from mistbow.fog_emulation import operate

    operate.remove(file)
