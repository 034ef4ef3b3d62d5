"""``mistbow storage accept-loss`` and ``repair``: the operator's decisions after a loss of data."""

from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from command_line.options import AGENT_URL, AgentUrl, Token
from ignite_server.settings import IgniteSettings
from mistbow.errors import UnavailableError, from_body
from mistbow.flags import bearer_token, ca_file
from mistbow.loopback import is_loopback_url
from mistbow.tls import client_context, supervisor_context

# Lines are not wrapped, also in a pipe.
_out = Console(highlight=False, soft_wrap=True)

_REPAIR_S = 3600.0


def accept_loss(settings: IgniteSettings) -> None:
    """Remove the absent Ignite nodes from this site permanently; their data is lost."""
    from ignite_server import cluster
    from suite.processes import ignite_config

    away = cluster.accept_loss(ignite_config(settings), settings.jars_folder)
    _out.print(f"removed from the site: {', '.join(away)}")
    _out.print(
        "Empty the folder ignite/ of a removed node before that node is started again.",
    )


def repair(
    stream: Annotated[str, typer.Argument(help="A stream that /readyz lists as refused.")],
    source: Annotated[
        str | None, typer.Option("--from", metavar="SITE", help="The site with a replica.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-loss", help="Accept that rows without a replica are lost.")
    ] = False,
    url: AgentUrl = AGENT_URL,
    token: Token = None,
    site: Annotated[
        str | None, typer.Option(help="The site whose stream is repaired, through this agent.")
    ] = None,
) -> None:
    """Repair a stream that lacks rows, from a replica at another site or by accepting the loss."""
    secret = bearer_token(token)
    is_local = is_loopback_url(url)
    how = {"accept_loss": "true"} if accept else {}
    if source is not None:
        how["from"] = source
    if site is not None:
        how["site"] = site
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/streams/{quote(stream)}/repair",
            params=how,
            headers={} if secret is None else {"Authorization": f"Bearer {secret}"},
            timeout=_REPAIR_S,
            # A certificate names the service as other machines reach it.
            verify=supervisor_context(ca_file()) if is_local else client_context(ca_file()),
            trust_env=not is_local,
        )
        body = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise UnavailableError(f"the agent at {url} does not answer: {error}") from error
    if not answer.is_success:
        raise from_body(answer.status_code, body)
    _out.print(
        f"{stream}: {body['missing']:,} rows were missing, {body['restored']:,} are restored",
    )
