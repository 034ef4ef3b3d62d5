"""The tables of ``mistbow fog show`` and ``mistbow fog plan``."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from analytics.fog_models import FogNode, FogSnapshot
from analytics.insight_models import ExplainedGroup, PlacementPlan


def fog_tables(fog: FogSnapshot) -> Iterator[Table]:
    """Yield the tables of a fog: its workers, their facts, its links, and its points' quality."""
    yield _workers(fog)
    if facts := {node.name: [*_facts(node)] for node in fog.nodes if any(_facts(node))}:
        table = Table("worker", "known facts")
        for name, known in sorted(facts.items()):
            table.add_row(Text(name), Text("\n".join(known)))
        yield table
    if fog.links:
        yield _links(fog)
    if fog.sources:
        yield _sources(fog)


def node_state(node: FogNode) -> str:
    """Return the state of a node in a word; empty: it is alive, and receives fragments."""
    return "suspected" if node.suspected else "drained" if node.drained else ""


def _workers(fog: FogSnapshot) -> Table:
    table = Table("site", "region", "worker", "free cores", "free memory", "state")
    for node in sorted(fog.nodes, key=lambda each: (each.site, each.name)):
        table.add_row(
            Text(node.site),
            Text(node.region),
            Text(node.name),
            f"{node.cores_free:.3g} of {node.cores:.3g}",
            f"{node.memory_free_mb:.0f} of {node.memory_mb:.0f} MB",
            node_state(node),
        )
    for site in sorted({*fog.sites} - {node.site for node in fog.nodes}):
        table.add_row(Text(site), "", "-", "", "", "no worker")
    return table


def _facts(node: FogNode) -> Iterator[str]:
    """Yield the known power, battery, prices and position of a node."""
    if node.power is not None:
        yield f"power: {node.power.idle_w:g} W idle, {node.power.full_w:g} W at full load"
    if (battery := node.battery) is not None:
        charging = f", charged with {battery.charging_w:.3g} W" if battery.charging_w else ""
        yield f"battery: {battery.charge_wh:.4g} of {battery.capacity_wh:.4g} Wh{charging}"
        if battery.next_charge_s:
            yield f"next charge: in {battery.next_charge_s / 3600:.1f} h"
    if node.price_per_core_hour is not None:
        yield f"price per core and hour: {node.price_per_core_hour:.4g}"
    if node.price_per_gb is not None:
        yield f"price per GB: {node.price_per_gb:.4g}"
    if node.position is not None:
        yield f"position: {node.position.latitude:.5g}, {node.position.longitude:.5g}"
    if node.reliability < 1:
        yield f"reliability: {node.reliability:.0%}"


def _links(fog: FogSnapshot) -> Table:
    table = Table("from", "to", "latency", "loss", "bandwidth")
    for link in fog.links:
        bandwidth = link.bandwidth_mbps
        table.add_row(
            Text(link.source),
            Text(link.target),
            f"{link.latency_ms:.3g} ms",
            f"{link.loss:.1%}",
            "unknown" if bandwidth is None else f"{bandwidth:.3g} Mbit/s",
        )
    return table


def _sources(fog: FogSnapshot) -> Table:
    table = Table("points of", "complete", "timely", "accurate")
    for source in fog.sources:
        figures = (source.completeness, source.timeliness, source.accuracy)
        table.add_row(
            Text(source.site), *("" if each is None else f"{each:.1%}" for each in figures)
        )
    return table


def plan_parts(plan: PlacementPlan) -> Iterator[RenderableType]:
    """Yield the parts of a plan: each group with its fragments, and the moves."""
    for group in plan.groups:
        yield _fragments(group)
        yield from (Text(line) for line in _lines(group))
    for move in plan.moves:
        target = "no worker" if move.to_worker is None else move.to_worker
        why = "" if move.why is None else f" ({move.why})"
        yield Text(f"{move.task} of {move.group} would move: {move.from_worker} -> {target}{why}")


def _fragments(group: ExplainedGroup) -> Table:
    table = Table(
        *(
            "fragment",
            "kind",
            "worker",
            "site",
            "cores",
            "measured",
            "memory",
            "from its points",
            "checked",
        ),
        title=Text(f"{group.id}, placed by {group.scheduler}"),
    )
    for each in group.fragments:
        table.add_row(
            Text(each.id),
            each.kind,
            Text(each.worker or "-"),
            Text(each.site or "-"),
            "" if each.cores is None else f"{each.cores:.3g}",
            ""
            if each.measured is None or each.measured.cores is None
            else f"{each.measured.cores:.3g}",
            "" if each.memory_mb is None else f"{each.memory_mb:.0f} MB",
            "" if each.data_latency_ms is None else f"{each.data_latency_ms:.3g} ms",
            f"{each.checked:.0%}" if each.checked else "",
        )
    return table


def _lines(group: ExplainedGroup) -> Iterator[str]:
    latency = "unknown" if group.latency_ms is None else f"{group.latency_ms:.3g} ms"
    yield f"latency of links from points to results: {latency}"
    crossing = [edge.bytes_per_s for edge in group.edges if not edge.is_local]
    known = [rate for rate in crossing if rate is not None]
    unknown = f", {len(crossing) - len(known)} unknown" if len(known) < len(crossing) else ""
    yield f"traffic between sites, at most: {sum(known) / 1000:.3g} kB/s{unknown}"
    if group.cost_per_hour is not None:
        yield f"price: {group.cost_per_hour:.4g} per hour"
    if group.cost_cap_per_hour is not None:
        yield f"COST_CAP: {group.cost_cap_per_hour:.4g} per hour"
    yield from (f"{read.words}" for read in group.remote_reads)
    if group.problem is not None:
        yield f"the scheduler failed: {group.problem}"
    yield from (f"refused: {refusal}" for refusal in group.refusals)
