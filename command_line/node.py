"""``mistbow node``: drain a node before its maintenance, and let it receive fragments again."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from command_line.enabler import URL, Token, Url, enabler_client, err, out

if TYPE_CHECKING:
    from analytics.client.enabler import EnablerClient

_PAUSE_S = 0.5

app = typer.Typer(
    help="Drain a node before its maintenance, and undrain it afterwards.", no_args_is_help=True
)

Node = Annotated[str, typer.Argument(help="The name of the node's worker; see mistbow fog show.")]


@app.command()
def drain(
    node: Node,
    url: Url = URL,
    token: Token = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait until no fragment runs on the node.", min=0)
    ] = 120.0,
) -> None:
    """Move all fragments of a node to other nodes, without a gap in results.

    The exit code is 1 if fragments remain: no other node can run them.
    """
    with enabler_client(url, token) as enabler:
        enabler.drain(node)
        remaining = _await_empty(enabler, node, time.monotonic() + wait)
    if remaining:
        err.print(
            f"{len(remaining)} fragments remain on {node}: {', '.join(remaining)}.\n"
            "No other node has taken them over: see why with mistbow insights list, and add "
            "capacity.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(1)
    out.print(
        f"No fragment runs on {node}. Stop it, or use it again: mistbow node undrain {node}",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def undrain(node: Node, url: Url = URL, token: Token = None) -> None:
    """Allow a drained node to receive fragments again."""
    with enabler_client(url, token) as enabler:
        enabler.undrain(node)
    out.print(f"{node} receives fragments again.", markup=False, soft_wrap=True)


def _await_empty(enabler: "EnablerClient", node: str, until: float) -> list[str]:
    """Wait until a drained node runs no fragment; return the ids of its remaining fragments."""
    while True:
        found = enabler.node_drain(node)
        if (found.drained and not found.fragments) or time.monotonic() >= until:
            return found.fragments
        time.sleep(_PAUSE_S)
