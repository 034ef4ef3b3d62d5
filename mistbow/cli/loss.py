"""``mistbow storage accept-loss`` and ``repair``: what an operator decides when data is lost."""

from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from mistbow.cli.flags import authorities, bearer
from mistbow.errors import UnavailableError, from_body
from mistbow.settings import StorageSettings
from mistbow.tls import own_context

_out = Console()

_URL = "http://127.0.0.1:50000"
_REPAIR_S = 3600.0


def accept_loss(settings: StorageSettings) -> None:
    """Have this site's Ignite go on without the nodes that are away, for good."""
    from mistbow.ignite import cluster
    from mistbow.supervisor.suite import ignite_config

    away = cluster.accept_loss(ignite_config(settings), settings.jars_folder)
    _out.print(f"goes on without {', '.join(away)}", highlight=False)
    _out.print("before one of them is started again, empty its folder ignite/", highlight=False)


def repair(
    stream: Annotated[str, typer.Argument(help="A stream that /readyz says is refused.")],
    source: Annotated[
        str | None, typer.Option("--from", metavar="SITE", help="The site with its replica.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-loss", help="Go on without what is lost.")
    ] = False,
    url: Annotated[str, typer.Option(envvar="MISTBOW_AGENT_URL", help="The storage agent.")] = _URL,
    token: Annotated[
        str | None, typer.Option(envvar="MISTBOW_TOKEN", help="Bearer token.", show_default=False)
    ] = None,
) -> None:
    """Make a stream whole that lost rows, from a replica at another site, or without them."""
    secret = bearer(token)
    how = {"accept_loss": "true"} if accept else {}
    if source is not None:
        how["from"] = source
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/streams/{quote(stream)}/repair",
            params=how,
            headers={} if secret is None else {"Authorization": f"Bearer {secret}"},
            timeout=_REPAIR_S,
            verify=own_context(authorities()),
        )
        body = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise UnavailableError(f"the agent at {url} does not answer: {error}") from error
    if not answer.is_success:
        raise from_body(answer.status_code, body)
    _out.print(
        f"{stream}: {body['missing']:,} numbers were missing, {body['restored']:,} have their rows "
        "again",
        highlight=False,
    )
