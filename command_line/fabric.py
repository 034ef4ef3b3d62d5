"""``mistbow fabric status``: the sites, nodes, links and workers, and their problems."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from command_line.enabler import URL as ENABLER_URL
from command_line.enabler import print_json
from command_line.options import AGENT_URL, AgentUrl, AsJson, Token
from mistbow.clock import system_clock
from mistbow.flags import bearer_token, ca_file

if TYPE_CHECKING:
    from command_line.fabric_problems import FabricReport, Problem
    from mistbow.client.operation_model import SiteStatus

_GIB = 2**30
_out = Console()

app = typer.Typer(help="The fabric: its sites, nodes, links and workers.", no_args_is_help=True)


@app.callback()
def fabric() -> None:
    """Show the state of the fabric."""


@app.command()
def status(
    url: AgentUrl = AGENT_URL,
    enabler_url: Annotated[
        str, typer.Option(envvar="MISTBOW_ENABLER_URL", help="Address of the analytics enabler.")
    ] = ENABLER_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the sites, workers, links and lags, and all problems with their remedies.

    The exit code is 1 if something is wrong.
    """
    from command_line.fabric_problems import find_problems

    report = _collect(url, enabler_url, bearer_token(token))
    problems = find_problems(report, system_clock())
    if as_json:
        print_json(_to_json(report, problems))
    else:
        _print(report, problems)
    if problems:
        raise typer.Exit(1)


def _collect(url: str, enabler_url: str, token: str | None) -> "FabricReport":
    from analytics.client.enabler import EnablerClient
    from command_line.fabric_problems import FabricReport
    from mistbow.client.agent import AgentClient
    from mistbow.errors import MistbowError

    statuses, clusters, silent = {}, {}, {}
    agent = AgentClient(url, token=token, ca=ca_file())
    try:
        fabric = agent.fabric()
        for site in fabric.sites:
            if not site.reachable:
                continue
            there = agent.at(site.name).operations
            try:
                statuses[site.name] = there.status()
                clusters[site.name] = there.cluster()
            except MistbowError as error:
                silent[site.name] = error.message
    finally:
        agent.close()
    enabler = EnablerClient(enabler_url, token=token, ca=ca_file())
    deployments, problem = None, ""
    try:
        deployments = enabler.list()
    except MistbowError as error:
        problem = error.message
    finally:
        enabler.close()
    return FabricReport(fabric, statuses, clusters, silent, deployments, problem)


def _to_json(report: "FabricReport", problems: "list[Problem]") -> str:
    body = {
        "fabric": report.fabric,
        "sites": report.statuses,
        "clusters": report.clusters,
        "deployments": [each.model_dump(mode="json") for each in report.deployments or ()],
        "problems": problems,
    }
    return msgspec.json.encode(body).decode()


def _print(report: "FabricReport", problems: "list[Problem]") -> None:
    _out.print(_sites(report))
    _out.print(_workers(report))
    _out.print(enablers_table(report))
    if report.fabric.links:
        _out.print(_links(report))
    if report.deployments:
        _out.print(_insights(report))
    if not problems:
        _out.print("no problems")
    for each in problems:
        _out.print(Text.assemble((each.where, "bold red"), ": ", each.what), soft_wrap=True)
        _out.print(Text(f"  {each.action}"), soft_wrap=True)


def _sites(report: "FabricReport") -> Table:
    table = Table("site", "region", "node", "state", "Ignite nodes", "stored", "disk free")
    for site in report.fabric.sites:
        status = report.statuses.get(site.name)
        cluster = report.clusters.get(site.name)
        state = "reachable" if site.reachable else "suspected" if site.suspected else "unreachable"
        if status is not None:
            state = "not ready" if status.waiting_for else "warns" if status.warnings else "ready"
        nodes = "" if cluster is None else f"{sum(n.online for n in cluster.nodes)}"
        table.add_row(
            *map(Text, (site.name, site.region, site.node, state, nodes)),
            "" if status is None else f"{status.stored_bytes / 2**20:,.1f} MiB",
            "" if status is None else _free(status),
        )
    return table


def _free(status: "SiteStatus") -> str:
    return f"{status.disk_free_bytes / _GIB:,.1f} of {status.disk_size_bytes / _GIB:,.1f} GiB"


def _workers(report: "FabricReport") -> Table:
    table = Table("site", "worker", "free cores", "free memory", "reliability", "state")
    for site in report.fabric.sites:
        for worker in site.workers:
            table.add_row(
                Text(site.name),
                Text(worker.name),
                f"{worker.cores_free:.3g} of {worker.cores:.3g}",
                f"{worker.memory_free_mb:.0f} of {worker.memory_mb:.0f} MB",
                f"{worker.reliability:.2f}",
                "suspected" if worker.suspected else "drained" if worker.drained else "alive",
            )
        if not site.workers:
            table.add_row(Text(site.name), "-", "", "", "", "no worker")
    return table


def enablers_table(report: "FabricReport") -> Table:
    """Return a table of the enablers by domain; the active one is first."""
    table = Table("domain", "site", "enabler", "state")
    found = [(each, site.name) for site in report.fabric.sites for each in site.enablers]
    for enabler, site in sorted(found, key=lambda each: (each[0].domain, not each[0].is_active)):
        state = "active" if enabler.is_active else "standby"
        table.add_row(*map(Text, (enabler.domain, site, enabler.url, state)))
    if not found:
        table.add_row("-", "", "", "no enabler")
    return table


def _links(report: "FabricReport") -> Table:
    table = Table("from", "to", "latency", "loss", "bandwidth")
    for link in report.fabric.links:
        bandwidth = link.bandwidth_mbps
        table.add_row(
            Text(link.source),
            Text(link.target),
            f"{link.latency_ms:.1f} ms",
            "" if link.loss is None else f"{link.loss:.1%}",
            "" if bandwidth is None else f"{bandwidth:.3g} Mbit/s",
        )
    return table


def _insights(report: "FabricReport") -> Table:
    table = Table("deployment", "insight", "state", "lag")
    for deployment in report.deployments or ():
        for each in deployment.insights:
            table.add_row(
                Text(deployment.deployment_id),
                Text(each.name),
                each.present_lifecycle.state,
                "" if each.lag_ms is None else f"{each.lag_ms / 1000:.1f} s",
            )
    return table
