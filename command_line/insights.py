"""``mistbow insights``: deploying insights and reading their results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analytics.client.enabler import EnablerClient
from analytics.insight_models import (
    Decision,
    DeploymentStatus,
    InsightStatus,
    PlacedFragment,
    Result,
)
from grammar import Diagnostic, ParseError, format_text, render
from mistbow.errors import InvalidQueryError, MistbowError
from mistbow.flags import bearer_token, ca_file

app = typer.Typer(no_args_is_help=True, help="Deploy insights and read their results.")

_out = Console()
_err = Console(stderr=True)

Queries = Annotated[
    str, typer.Argument(metavar="FILE|-|TEXT", help="A file of queries, - for stdin, or a text.")
]


def _not_empty(deployment_id: str) -> str:
    """Refuse an empty id, whose path would be that of the list of deployments."""
    if not deployment_id:
        raise typer.BadParameter("the id is empty; `mistbow insights list` shows the ids")
    return deployment_id


DeploymentId = Annotated[
    str,
    typer.Argument(metavar="ID", help="A deployment's id, d-xxxxxxxx.", callback=_not_empty),
]
Url = Annotated[str, typer.Option(envvar="MISTBOW_ENABLER_URL", help="The analytics enabler.")]
Token = Annotated[
    str | None, typer.Option(envvar="MISTBOW_TOKEN", help="Bearer token.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str | None, typer.Option(help="A name for the deployment.")]

_URL = "http://127.0.0.1:8000"


@app.command()
def submit(
    queries: Queries,
    amend: Annotated[
        str | None, typer.Option(metavar="ID", help="Replace the insights of this deployment.")
    ] = None,
    name: Name = None,
    url: Url = _URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Deploy insights, or amend a deployment."""
    text = _read(queries)
    with _client(url, token, text) as client:
        if amend is None:
            accepted = client.submit(text, name=name)
        else:
            accepted = client.amend(amend, text, name=name)
    if as_json:
        _print_json(accepted.model_dump_json())
        return
    _print_problems(accepted.warnings, text)
    _out.print(f"{accepted.deployment_id}: {', '.join(accepted.insights)}", highlight=False)


@app.command()
def check(queries: Queries, url: Url = _URL, token: Token = None, as_json: AsJson = False) -> None:
    """Print all errors and warnings of queries; exit with 1 after errors."""
    text = _read(queries)
    with _client(url, token, text) as client:
        answer = client.check(text)
    if as_json:
        _print_json(answer.model_dump_json())
    else:
        _print_problems(answer.problems, text)
        if answer.ok:
            _out.print("[green]ok[/green]")
    if not answer.ok:
        raise typer.Exit(1)


@app.command()
def explain(
    queries: Queries, url: Url = _URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show the plan of queries, and the parts shared with running insights; exit with 1 on errors.

    Insights without errors are explained even if others have errors.
    """
    text = _read(queries)
    with _client(url, token, text) as client:
        if as_json:
            _print_json(client.explain(text).model_dump_json())
        else:
            _print_plain(client.explain_text(text))
        is_correct = client.check(text).ok
    if not is_correct:
        raise typer.Exit(1)


@app.command("format")
def format_queries(
    queries: Queries,
    write: Annotated[bool, typer.Option(help="Write into the file, print nothing.")] = False,
) -> None:
    """Print queries and their comments in canonical form; exit with 1 on a syntax error."""
    path = Path(queries)
    if write and not path.is_file():
        raise typer.BadParameter(f"cannot write to {queries}: it is not an existing file")
    text = _read_file(path) if write else _read(queries)
    try:
        formatted = format_text(text)
    except ParseError as error:
        _print_problems(list(error.problems), text)
        raise typer.Exit(1) from None
    if write:
        path.write_text(formatted, encoding="utf-8")
    else:
        _print_plain(formatted)


@app.command("list")
def list_all(url: Url = _URL, token: Token = None, as_json: AsJson = False) -> None:
    """List all deployments."""
    with _client(url, token) as client:
        deployments = client.list()
    if as_json:
        _print_json(f"[{','.join(d.model_dump_json() for d in deployments)}]")
        return
    table = Table("deployment", "name", "state", "insights")
    for deployment in deployments:
        names = ", ".join(insight.name for insight in deployment.insights)
        table.add_row(
            deployment.deployment_id,
            Text(_visible(deployment.name or "")),
            _colored(*_state_of(deployment)),
            names,
        )
    _out.print(table)


@app.command()
def show(
    deployment_id: DeploymentId, url: Url = _URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show a deployment: the states of its insights, where it runs, and the newest decisions."""
    with _client(url, token) as client:
        deployment = client.show(deployment_id)
    if as_json:
        _print_json(deployment.model_dump_json())
    else:
        _print_deployment(deployment)


@app.command()
def results(
    deployment_id: DeploymentId,
    insight: Annotated[str | None, typer.Option(help="Only results of this insight.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="From this time on, ms.")] = None,
    end: Annotated[int | None, typer.Option("--to", help="Up to this time, ms.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of results, the latest first.")
    ] = 20,
    follow: Annotated[bool, typer.Option(help="Follow new results.")] = False,
    url: Url = _URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print the latest results in the order of time, one result per line."""
    with _client(url, token) as client:
        latest = client.results(deployment_id, insight=insight, start=start, end=end, limit=limit)
        for result in latest.results:
            _print_result(result, as_json)
        if latest.missing_sites:
            away = ", ".join(latest.missing_sites)
            _err.print(f"unreachable sites: {away}", style="yellow", highlight=False, markup=False)
        if follow:
            for result in client.follow(deployment_id, insight=insight, after=latest.next):
                _print_result(result, as_json)


@app.command()
def pause(
    deployment_id: DeploymentId, url: Url = _URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Pause a deployment: its results end now, and are retained."""
    with _client(url, token) as client:
        deployment = client.pause(deployment_id)
    _print_change(deployment, "paused", as_json)


@app.command()
def resume(
    deployment_id: DeploymentId, url: Url = _URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Resume a paused deployment; the pause remains a gap in its results."""
    with _client(url, token) as client:
        deployment = client.resume(deployment_id)
    _print_change(deployment, "resumed", as_json)


@app.command()
def decisions(
    insight: Annotated[
        str | None,
        typer.Argument(metavar="ID[/NAME]", help="A deployment, or one of its insights."),
    ] = None,
    since: Annotated[int | None, typer.Option(help="From this time on, ms.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, the newest first.")] = 20,
    url: Url = _URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest decisions of the enabler: what, why, and by whom; in the order of time."""
    with _client(url, token) as client:
        found = client.decisions(insight, since=since, limit=limit)
    for decision in found:
        if as_json:
            _print_json(decision.model_dump_json())
        else:
            _print_decision(decision)


@app.command()
def delete(deployment_id: DeploymentId, url: Url = _URL, token: Token = None) -> None:
    """Delete a deployment; other deployments that refer to the deleted insights keep running."""
    with _client(url, token) as client:
        client.delete(deployment_id)
    _out.print(f"{deployment_id} is deleted", highlight=False, markup=False)


@contextmanager
def _client(url: str, token: str | None, text: str = "") -> Iterator[EnablerClient]:
    """Yield a client of the enabler; print an error of a call, and exit with 1 after the error.

    ``text``: the queries that the printed diagnostics quote.
    """
    try:
        client = EnablerClient(url, token=bearer_token(token), ca=ca_file())
    except httpx.InvalidURL as error:
        raise typer.BadParameter(f"--url {url}: {error}") from None
    try:
        yield client
    except InvalidQueryError as error:
        _print_problems([Diagnostic(**problem) for problem in error.details or ()], text)
        raise typer.Exit(1) from None
    except MistbowError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        client.close()


def _read(queries: str) -> str:
    """Return the text of queries; ``queries``: a path, ``-`` for stdin, or the text itself."""
    if queries == "-":
        return _decoded(sys.stdin.buffer.read(), "the standard input")
    # A text without any of these is no statement, so it is the name of a file.
    if not any(char in queries for char in "=;\n"):
        path = Path(queries)
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {queries}")
        return _read_file(path)
    return queries


def _read_file(path: Path) -> str:
    return _decoded(path.read_bytes(), str(path))


def _decoded(data: bytes, origin: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{origin} is not text in UTF-8: {error}") from None


def _visible(text: str) -> str:
    """Return a text with a sign for each control character, which could control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _fail(error: MistbowError) -> NoReturn:
    _err.print("error", style="red", end="")
    _err.print(f": {error.message}", highlight=False, markup=False)
    if error.hint is not None:
        _err.print(f"hint: {error.hint}", highlight=False, markup=False)
    raise typer.Exit(1)


def _print_problems(problems: list[Diagnostic], text: str) -> None:
    for problem in problems:
        style = "red" if problem.severity == "error" else "yellow"
        _err.print(render(problem, text), style=style, highlight=False, markup=False)


def _print_plain(text: str) -> None:
    _out.print(text, end="", highlight=False, markup=False, soft_wrap=True)


def _print_json(text: str) -> None:
    _print_plain(f"{text}\n")


def _print_result(result: Result, as_json: bool) -> None:
    if as_json:
        _print_json(result.model_dump_json())
        return
    when = _time(result.ts)
    value = result.value_words("g")
    revision = f" (revision {result.revision})" if result.revision else ""
    missing = f" ({result.missing_words})" if result.missing else ""
    line = f"{when}  {result.insight}  {result.key_words}  {value}{revision}{missing}"
    _print_plain(f"{_visible(line)}\n")


def _print_deployment(deployment: DeploymentStatus) -> None:
    name = _visible(deployment.name or "")
    _out.print(f"{deployment.deployment_id}  {name}", highlight=False, markup=False)
    state, since = _state_of(deployment)
    _out.print(f"state: {_colored(state, since)}")
    if deployment.error is not None:
        _out.print(deployment.error, style="yellow", highlight=False, markup=False)
    table = Table("insight", "state", "lag", "missing sites", "text")
    for insight in deployment.insights:
        table.add_row(
            insight.name,
            _colored(*_state_of(insight)),
            "" if insight.lag_ms is None else f"{insight.lag_ms / 1000:g} s",
            ", ".join(site.site for site in insight.missing_sites),
            Text(insight.text),
        )
    _out.print(table)
    if deployment.placement:
        _out.print(_placement_table(deployment.placement))
    _print_problems(deployment.warnings, deployment.queries)
    for decision in deployment.decisions:
        _print_decision(decision)


def _placement_table(placement: list[PlacedFragment]) -> Table:
    table = Table("fragment", "kind", "worker", "site", "since", "state")
    for each in placement:
        since = "" if each.since is None else _time(each.since)
        place = (each.node or "-", each.site or "-")
        table.add_row(each.fragment, each.kind, *place, since, each.state or "-")
    return table


def _print_decision(decision: Decision) -> None:
    line = f"{_time(decision.at)}  {decision.what}: {decision.why} ({decision.by})"
    _print_plain(f"{_visible(line)}\n")


def _print_change(deployment: DeploymentStatus, change: str, as_json: bool) -> None:
    if as_json:
        _print_json(deployment.model_dump_json())
    else:
        _out.print(f"{deployment.deployment_id} is {change}", highlight=False, markup=False)


def _state_of(status: DeploymentStatus | InsightStatus) -> tuple[str, int | None]:
    """Return the state and its beginning; an enabler of an earlier version sends a status only."""
    if status.lifecycle is not None:
        return status.lifecycle.state, status.lifecycle.since
    if isinstance(status, DeploymentStatus):
        return status.status, status.status_since
    return status.state, status.state_since


def _colored(status: str, since: int | None) -> str:
    colors = {"running": "green", "failed": "red"}
    period = "" if since is None else f" since {_time(since)}"
    return f"[{colors.get(status, 'yellow')}]{status}{period}[/]"


def _time(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="milliseconds")
