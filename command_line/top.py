"""``mistbow top``: the state of the fog and of its insights at a glance."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analytics.client.enabler import EnablerClient
from analytics.fog_models import FogSnapshot
from analytics.health_models import Health
from analytics.insight_models import DeploymentStatus, InsightStatus
from command_line.enabler import URL, Url, enabler_client, out, print_json, visible
from command_line.fog_tables import node_state
from command_line.options import AsJson, Token
from mistbow.clock import system_clock
from mistbow.errors import MistbowError

_STYLES = {
    "running": "green",
    "paused": "dim",
    "failed": "bold red",
    "placing": "red",
    "shed": "red",
    "lagging": "yellow",
    "degraded": "yellow",
}
_SEVERITIES = {"error": "bold red", "warning": "yellow"}
_MAX_PROBLEMS = 12


@dataclass(frozen=True, slots=True)
class Glance:
    """The report of an enabler at one time (ms)."""

    at: int
    deployments: Sequence[DeploymentStatus]
    fog: FogSnapshot
    health: Health


def top(
    url: Url = URL,
    token: Token = None,
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two updates.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the state once, and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show sites, workers and insights with their states, and the first 12 problems.

    Without a terminal, the state is printed once.
    """
    with enabler_client(url, token) as client:
        if as_json:
            glance = read_glance(client)
            deployments = ",".join(each.model_dump_json() for each in glance.deployments)
            fog = glance.fog.model_dump_json()
            health = glance.health.model_dump_json()
            print_json(
                f'{{"at":{glance.at},"health":{health},"fog":{fog},"deployments":[{deployments}]}}'
            )
        elif once or not out.is_terminal:
            out.print(view_of(read_glance(client)))
        else:
            _follow(client, interval)


def _follow(client: EnablerClient, interval: float) -> None:
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            try:
                live.update(view_of(read_glance(client)), refresh=True)
            except MistbowError as error:
                live.update(Text(visible(error.message), "red"), refresh=True)
            time.sleep(interval)


def read_glance(client: EnablerClient) -> Glance:
    """Read the deployments, the fog and its health from an enabler."""
    return Glance(system_clock(), client.list(), client.fog(), client.health())


def view_of(glance: Glance) -> RenderableType:
    """Return the problems of a report, and its tables.

    The problems are first, since a terminal does not show the end of long tables.
    """
    return Group(_summary(glance), _problem_lines(glance), _insights(glance), _sites(glance))


def _summary(glance: Glance) -> Text:
    counts = glance.health.counts
    return Text(
        f"{counts.sites_reachable} of {counts.sites} sites reachable, "
        f"{counts.workers} {'worker' if counts.workers == 1 else 'workers'}, "
        f"{counts.insights_running} of {counts.insights} insights run",
        "bold",
    )


def _sites(glance: Glance) -> Table:
    table = Table("site", "worker", "free cores", "free memory", "fragments", "state")
    fragments: dict[str, int] = {}
    for fragment in glance.fog.fragments:
        if fragment.node is not None:
            fragments[fragment.node] = fragments.get(fragment.node, 0) + 1
    nodes = {node.name: node for node in glance.fog.nodes}
    for site in glance.fog.site_states:
        state = "" if site.reachable else f"unreachable{_ago(site.unreachable_since, glance.at)}"
        if not site.workers:
            table.add_row(_text(site.name), "-", "", "", "", state or "no worker")
        for name in site.workers:
            node = nodes.get(name)
            table.add_row(
                _text(site.name),
                _text(name),
                "" if node is None else f"{node.cores_free:.3g} of {node.cores:.3g}",
                "" if node is None else f"{node.memory_free_mb:.0f} of {node.memory_mb:.0f} MB",
                str(fragments.get(name, 0)),
                state or ("" if node is None else node_state(node)),
            )
    return table


def _insights(glance: Glance) -> RenderableType:
    rates = _rates(glance.fog)
    table = Table("insight", "state", "since", "lag", "every", "rate")
    for name in ("salience", "owner", "missing"):
        table.add_column(name, justify="right" if name == "salience" else "left")
    for deployment, insight in _live(glance):
        lifecycle = insight.present_lifecycle
        rate = rates.get(insight.group or "")
        table.add_row(
            _text(f"{deployment.deployment_id}/{insight.name}"),
            Text(lifecycle.state, _STYLES.get(lifecycle.state, "")),
            _ago(lifecycle.since, glance.at).strip(" ()"),
            "" if insight.lag_ms is None else f"{insight.lag_ms / 1000:.1f} s",
            _every(insight),
            "" if rate is None else f"{rate / 1000:.3g} kB/s",
            str(insight.salience),
            _text(deployment.owner or ""),
            _text(", ".join(each.site for each in insight.missing_sites)),
        )
    return table if table.rows else Text("no insights are deployed", "dim")


def _every(insight: InsightStatus) -> str:
    """Return how often an insight has a value."""
    if insight.every_points is not None:
        return f"{insight.every_points:,} points"
    return "point" if insight.each_point else f"{insight.every_ms / 1000:g} s"


def _rates(fog: FogSnapshot) -> Mapping[str, float]:
    """Return group -> the bytes per second that its fragments write."""
    rates: dict[str, float] = {}
    for fragment in fog.fragments:
        if fragment.bytes_per_s is not None:
            rates[fragment.group] = rates.get(fragment.group, 0) + fragment.bytes_per_s
    return rates


def _problem_lines(glance: Glance) -> RenderableType:
    problems = glance.health.problems
    if not problems:
        return Text("no problems", "green")
    lines = [
        Text.assemble(
            (visible(each.what) + _ago(each.since, glance.at), _SEVERITIES[each.severity]),
            f"\n  {visible(each.action)}",
        )
        for each in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(Text(f"({len(problems) - _MAX_PROBLEMS} more)", "dim"))
    return Group(*lines)


def _live(glance: Glance) -> Iterator[tuple[DeploymentStatus, InsightStatus]]:
    for deployment in glance.deployments:
        for insight in deployment.insights:
            yield deployment, insight


def _ago(since: int | None, now: int) -> str:
    """Return a duration until now in words, in parentheses; empty: unknown.

    >>> _ago(0, 90_500), _ago(0, 7_200_000), _ago(None, 5)
    (' (for 90 s)', ' (for 120 min)', '')
    """
    if since is None:
        return ""
    seconds = max(0, now - since) // 1000
    if seconds < 120:
        return f" (for {seconds} s)"
    if seconds < 3 * 3600:
        return f" (for {seconds // 60} min)"
    return f" (for {seconds // 3600} h)"


def _text(text: str) -> Text:
    return Text(visible(text))
