"""The quality of sites' points at the enabler, the share of checks, and the metrics of the fog."""

import pyarrow as pa

from analytics_enabler.execution.fog_metrics import FogCollector
from analytics_enabler.execution.group_placements import GroupPlacement
from analytics_enabler.execution.source_quality import figures_of
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.model.snapshot import Battery, Fog, SourceQuality
from mistbow.fabric import Position
from mistbow.streams.schemas import QUALITY
from tests.analytics_enabler.scheduling import build


def row(metric: str, ts: int, points: int, **figures: float) -> dict[str, object]:
    unknown = dict.fromkeys(("completeness", "timeliness", "accuracy"))
    named = {"metric": metric, "node": "w", "fragment": "f", "ts": ts, "points": points}
    return {**unknown, **named, **figures}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=QUALITY)


def test_newest_rows_of_metrics_count_by_their_points() -> None:
    rows = table(
        row("load", 10, 100, completeness=0.1),
        row("load", 20, 30, completeness=1.0, timeliness=0.5),
        row("heat", 20, 10, completeness=0.6),
    )
    assert figures_of(rows, 5) == {"completeness": 0.9, "timeliness": 0.5}


def test_silent_metric_counts_as_one_point() -> None:
    rows = table(row("load", 20, 0, completeness=0.0), row("heat", 20, 1, completeness=1.0))
    assert figures_of(rows, 5) == {"completeness": 0.5}


def test_old_rows_do_not_count() -> None:
    assert figures_of(table(row("load", 20, 5, accuracy=0.5)), 20) == {}


def test_small_change_of_the_checked_share_is_ignored_but_none_and_all_are_exact() -> None:
    group = Group(scope=None, scheduler="quality")
    placement = GroupPlacement(group=group, sites=("a",), checked={"t": 0.95})
    shares = [
        placement.placed_on({"t": "w"}, 0, {"t": share}).checked for share in (0.9, 0.8, 1.0, 0.0)
    ]
    assert shares == [{"t": 0.95}, {"t": 0.8}, {"t": 1.0}, {"t": 0.0}]
    assert placement.placed_on({}, 0, {"t": 0.5}).checked == {}


def test_metrics_contain_the_known_figures_of_the_fog() -> None:
    battery = Battery(capacity_wh=100, charge_wh=25)
    fog = Fog(
        (
            build.node(
                "w",
                "edge",
                battery=battery,
                price_per_core_hour=0.5,
                cores=4,
                position=Position(latitude=35.17, longitude=33.36),
            ),
        ),
        build.link("edge", "cloud", 20),
        (SourceQuality(site="edge", accuracy=0.75),),
    )
    values = {
        (family.name, *sample.labels.values()): sample.value
        for family in FogCollector(lambda: fog).collect()
        for sample in family.samples
    }
    assert values["mistbow_node_price_per_hour", "w", "edge"] == 2.0
    assert values["mistbow_node_battery_charge_ratio", "w", "edge"] == 0.25
    assert values["mistbow_node_latitude_degrees", "w", "edge"] == 35.17
    assert values["mistbow_node_longitude_degrees", "w", "edge"] == 33.36
    assert values["mistbow_link_latency_seconds", "cloud", "edge"] == 0.02
    assert values["mistbow_site_accuracy_ratio", "edge"] == 0.75
    assert ("mistbow_site_completeness_ratio", "edge") not in values
    assert ("mistbow_node_full_watts", "w", "edge") not in values
    assert list(FogCollector(lambda: None).collect()) == []
