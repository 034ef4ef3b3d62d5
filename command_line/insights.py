"""``mistbow insights``: deploying insights and reading their results."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from analytics.insight_models import (
    Decision,
    DeploymentStatus,
    Lifecycle,
    PlacedFragment,
    Result,
)
from command_line.enabler import (
    URL,
    Queries,
    Url,
    enabler_client,
    err,
    out,
    print_json,
    print_plain,
    print_problems,
    read_file,
    read_queries,
    visible,
)
from command_line.options import AsJson, Token
from grammar import ParseError, format_text
from mistbow.clock import system_clock

app = typer.Typer(no_args_is_help=True, help="Deploy insights and read their results.")


def _not_empty(deployment_id: str) -> str:
    """Refuse an empty id, whose path would be that of the list of deployments."""
    if not deployment_id:
        raise typer.BadParameter("the id is empty; `mistbow insights list` shows the ids")
    return deployment_id


DeploymentId = Annotated[
    str,
    typer.Argument(metavar="ID", help="A deployment's id, d-xxxxxxxx.", callback=_not_empty),
]
Name = Annotated[str | None, typer.Option(help="A name for the deployment.")]


@app.command()
def submit(
    queries: Queries,
    amend: Annotated[
        str | None, typer.Option(metavar="ID", help="Replace the insights of this deployment.")
    ] = None,
    name: Name = None,
    if_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Amend only if this is still the version of the deployment, as `show` prints it.",
        ),
    ] = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Deploy insights, or amend a deployment."""
    if if_version is not None and amend is None:
        raise typer.BadParameter("--if-version needs --amend")
    text = read_queries(queries)
    with enabler_client(url, token, text) as client:
        if amend is None:
            accepted = client.submit(text, name=name)
        else:
            accepted = client.amend(amend, text, name=name, version=if_version)
    if as_json:
        print_json(accepted.model_dump_json())
        return
    print_problems(accepted.warnings, text)
    out.print(f"{accepted.deployment_id}: {', '.join(accepted.insights)}", highlight=False)


@app.command()
def check(queries: Queries, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Print all errors and warnings of queries; exit with 1 after errors."""
    text = read_queries(queries)
    with enabler_client(url, token, text) as client:
        answer = client.check(text)
    if as_json:
        print_json(answer.model_dump_json())
    else:
        print_problems(answer.problems, text)
        if answer.ok:
            out.print("[green]ok[/green]")
    if not answer.ok:
        raise typer.Exit(1)


@app.command()
def explain(queries: Queries, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Show the plan of queries, and the parts shared with running insights; exit with 1 on errors.

    Insights without errors are explained even if others have errors.
    """
    text = read_queries(queries)
    with enabler_client(url, token, text) as client:
        if as_json:
            print_json(client.explain(text).model_dump_json())
        else:
            print_plain(client.explain_text(text))
        is_correct = client.check(text).ok
    if not is_correct:
        raise typer.Exit(1)


@app.command("format")
def format_queries(
    queries: Queries,
    write: Annotated[bool, typer.Option(help="Write to the file instead of printing.")] = False,
) -> None:
    """Print queries and their comments in canonical form; exit with 1 on a syntax error."""
    path = Path(queries)
    if write and not path.is_file():
        raise typer.BadParameter(f"cannot write to {queries}: it is not an existing file")
    text = read_file(path) if write else read_queries(queries)
    try:
        formatted = format_text(text)
    except ParseError as error:
        print_problems(list(error.problems), text)
        raise typer.Exit(1) from None
    if write:
        path.write_text(formatted, encoding="utf-8")
    else:
        print_plain(formatted)


@app.command("list")
def list_all(url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """List all deployments."""
    with enabler_client(url, token) as client:
        deployments = client.list()
    if as_json:
        print_json(f"[{','.join(d.model_dump_json() for d in deployments)}]")
        return
    table = _table("deployment", "name", "insights")
    for deployment in deployments:
        names = ", ".join(insight.name for insight in deployment.insights)
        table.add_row(
            deployment.deployment_id,
            Text(visible(deployment.name or "")),
            names,
            _colored(deployment.present_lifecycle, between="\n"),
        )
    out.print(table)
    for deployment in deployments:
        _print_silent(deployment)


@app.command()
def show(
    deployment_id: DeploymentId, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show a deployment: the states and placements of its insights, and the newest decisions."""
    with enabler_client(url, token) as client:
        deployment = client.show(deployment_id)
    if as_json:
        print_json(deployment.model_dump_json())
    else:
        _print_deployment(deployment)


@app.command()
def results(
    deployment_id: DeploymentId,
    insight: Annotated[str | None, typer.Option(help="Only results of this insight.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="From this time on, ms.")] = None,
    end: Annotated[int | None, typer.Option("--to", help="Up to this time, ms.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="The maximum number of results; the latest are printed.")
    ] = 20,
    follow: Annotated[bool, typer.Option(help="Follow new results.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=60,
            help="Wait for at most this time (s) until the results up to --to, or up to now, are "
            "complete and include all stored points; exit with 1 if they are not.",
        ),
    ] = None,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print the latest results in the order of time, one result per line.

    With --wait, the results include all stored points, late points included.
    """
    settled_until = None if wait is None else end if end is not None else system_clock()
    with enabler_client(url, token) as client:
        latest = client.results(
            deployment_id,
            insight=insight,
            start=start,
            end=end,
            limit=limit,
            settled_until=settled_until,
            wait_s=wait,
        )
        for result in latest.results:
            _print_result(result, as_json)
        if latest.missing_sites:
            away = ", ".join(latest.missing_sites)
            err.print(f"unreachable sites: {away}", style="yellow", highlight=False, markup=False)
        for reason in latest.unsettled:
            text = f"not settled: {visible(reason)}"
            err.print(text, style="yellow", highlight=False, markup=False)
        if latest.settled is False and not follow:
            raise typer.Exit(1)
        if follow:
            for result in client.follow(deployment_id, insight=insight, after=latest.next):
                _print_result(result, as_json)


@app.command()
def pause(
    deployment_id: DeploymentId, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Pause a deployment; its results are retained."""
    with enabler_client(url, token) as client:
        _print_change(client.pause(deployment_id), "paused", as_json)


@app.command()
def resume(
    deployment_id: DeploymentId, url: Url = URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Resume a paused deployment; its results have no values for the pause."""
    with enabler_client(url, token) as client:
        _print_change(client.resume(deployment_id), "resumed", as_json)


@app.command()
def decisions(
    insight: Annotated[
        str | None,
        typer.Argument(metavar="ID[/NAME]", help="A deployment, or one of its insights."),
    ] = None,
    since: Annotated[int | None, typer.Option(help="From this time on, ms.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="The maximum number; the newest are printed.")
    ] = 20,
    url: Url = URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest decisions of the enabler in the order of time, with reason and author."""
    with enabler_client(url, token) as client:
        found = client.decisions(insight, since=since, limit=limit)
    for decision in found:
        if as_json:
            print_json(decision.model_dump_json())
        else:
            _print_decision(decision)


@app.command()
def delete(deployment_id: DeploymentId, url: Url = URL, token: Token = None) -> None:
    """Delete a deployment; other deployments that refer to the deleted insights keep running."""
    with enabler_client(url, token) as client:
        client.delete(deployment_id)
    out.print(f"{deployment_id} is deleted", highlight=False, markup=False)


def _print_result(result: Result, as_json: bool) -> None:
    if as_json:
        print_json(result.model_dump_json())
        return
    when = _time(result.ts)
    value = result.value_words("g")
    revision = f" (revision {result.revision})" if result.revision else ""
    notes = f" ({result.notes})" if result.notes else ""
    line = f"{when}  {result.insight}  {result.key_words}  {value}{revision}{notes}"
    print_plain(f"{visible(line)}\n")


def _print_deployment(deployment: DeploymentStatus) -> None:
    name = visible(deployment.name or "")
    out.print(f"{deployment.deployment_id}  {name}", highlight=False, markup=False)
    out.print(f"state: {_colored(deployment.present_lifecycle)}")
    if deployment.version is not None:
        out.print(f"version: {deployment.version}", highlight=False)
    if deployment.error is not None:
        out.print(deployment.error, style="yellow", highlight=False, markup=False)
    table = _table("insight", "lag", "missing sites")
    for insight in deployment.insights:
        table.add_row(
            insight.name,
            "" if insight.lag_ms is None else f"{insight.lag_ms / 1000:g} s",
            ", ".join(site.site for site in insight.missing_sites),
            _colored(insight.present_lifecycle, between="\n"),
        )
    out.print(table)
    _print_silent(deployment)
    _print_coverage(deployment)
    for insight in deployment.insights:
        print_plain(f"{visible(insight.text)}\n")
    if deployment.placement:
        out.print(_placement_table(deployment.placement))
    print_problems(deployment.warnings, deployment.queries)
    for decision in deployment.decisions:
        _print_decision(decision)


def _print_silent(deployment: DeploymentStatus) -> None:
    """Print why insights of a deployment have no value."""
    for insight in deployment.insights:
        if insight.silent is not None:
            text = f"{deployment.deployment_id} {insight.name} has no value: {insight.silent}"
            out.print(visible(text), style="yellow", highlight=False, markup=False)


def _print_coverage(deployment: DeploymentStatus) -> None:
    """Print which windows of a deployment's insights began before the first points."""
    for insight in deployment.insights:
        if (window := insight.window) is not None:
            covered = (window.ends_at - window.points_from) / 1000
            text = (
                f"{insight.name}: the window of the latest value is not full yet: it began at "
                f"{_time(window.begins_at)}, the points of {window.metric} at "
                f"{_time(window.points_from)}; {covered:,.0f} of "
                f"{(window.ends_at - window.begins_at) / 1000:,.0f} s ({window.share:.0%}) are "
                "covered"
            )
            out.print(visible(text), style="yellow", highlight=False, markup=False)


def _placement_table(placement: list[PlacedFragment]) -> Table:
    table = _table("fragment", "kind", "worker, site")
    for each in placement:
        since = "" if each.since is None else f"\nsince {_time(each.since)}"
        place = f"{each.node or '-'}\n{each.site or '-'}"
        table.add_row(each.fragment, each.kind, place, f"{each.state or '-'}{since}")
    return table


def _table(*columns: str) -> Table:
    """Return a table with columns whose texts may be broken, and a column ``state`` with times."""
    names = [Column(name, overflow="fold") for name in columns]
    return Table(*names, Column("state", no_wrap=True))


def _print_decision(decision: Decision) -> None:
    line = f"{_time(decision.at)}  {decision.what}: {decision.why} ({decision.by})"
    print_plain(f"{visible(line)}\n")


def _print_change(deployment: DeploymentStatus, change: str, as_json: bool) -> None:
    if as_json:
        print_json(deployment.model_dump_json())
    else:
        out.print(f"{deployment.deployment_id} is {change}", highlight=False, markup=False)


def _colored(lifecycle: Lifecycle, between: str = " ") -> str:
    colors = {"running": "green", "failed": "red"}
    state, since = lifecycle.state, lifecycle.since
    period = "" if since is None else f"{between}since {_time(since)}"
    return f"[{colors.get(state, 'yellow')}]{state}{period}[/]"


def _time(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="milliseconds")
