"""``mistbow node``: drain a node before its maintenance, and let it receive fragments again."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from command_line.enabler import URL, Url, enabler_client, err, out
from command_line.options import Token
from mistbow.errors import UnavailableError

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

    The exit code is 1 if fragments remain since no other node can run them, or if the worker does
    not report in time that it is drained and empty.
    """
    with enabler_client(url, token) as enabler:
        enabler.drain(node)
        problem = _await_empty(enabler, node, time.monotonic() + wait)
    if problem is not None:
        err.print(problem, markup=False, soft_wrap=True)
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


def _await_empty(enabler: "EnablerClient", node: str, until: float) -> str | None:
    """Wait until a drained node runs no fragment; return what prevents this at the end, or None."""
    while True:
        problem = _problem(enabler, node)
        if problem is None or time.monotonic() >= until:
            return problem
        time.sleep(_PAUSE_S)


def _problem(enabler: "EnablerClient", node: str) -> str | None:
    """Return why a node cannot be stopped yet; None: it is drained, and runs no fragment."""
    try:
        found = enabler.node_drain(node)
    except UnavailableError as error:
        return (
            f"It is unknown which fragments run on {node}: {error.message}\n"
            "Check that the worker runs, and drain it again."
        )
    if found.fragments:
        return (
            f"{len(found.fragments)} fragments remain on {node}: {', '.join(found.fragments)}.\n"
            "No other node has taken them over: see why with mistbow insights list at the enabler "
            "of each domain, and add capacity."
        )
    if not found.drained:
        return (
            f"{node} does not announce yet that it is drained, so it can receive fragments.\n"
            f"Wait until it does: mistbow node drain {node}"
        )
    return None
