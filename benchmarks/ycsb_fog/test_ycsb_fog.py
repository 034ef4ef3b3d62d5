"""The parts of the experiment that measure nothing: plan, operations, results, page."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.storage.http_clients import post
from benchmarks.storage.resp import command
from benchmarks.storage.workloads import RECORD_BYTES, KeyOperation, OperationSource, key_of
from benchmarks.storage.ycsb import Mistbow, Redis, Server
from benchmarks.ycsb_fog.clients import NodeRequest
from benchmarks.ycsb_fog.findings import findings
from benchmarks.ycsb_fog.page import Page
from benchmarks.ycsb_fog.plan import CLIENT, SUPPORTED, Plan, fog_plan, split
from benchmarks.ycsb_fog.plot import draw_panels, write_plot
from benchmarks.ycsb_fog.results import RunResult, merge, read, summaries, write
from benchmarks.ycsb_fog.target import Target


def test_fog_delays_each_message_once_by_3_ms_and_has_a_node_for_the_clients() -> None:
    fog = fog_plan(6)
    assert [node.name for node in fog.nodes] == [CLIENT, "n1", "n2", "n3", "n4", "n5", "n6"]
    for node in fog.nodes:
        up, down = fog.directions_of(node.name)
        assert (up.way, up.shape.delay_ms, up.shape.rate_bps) == ("up", 3.0, 10**10)
        assert (down.way, down.shape.delay_ms, down.shape.rate_bps) == ("down", 0.0, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": (7,)}, "nodes: 7: give an even number from 6 to 60"),
        ({"nodes": (4,)}, "nodes: 4: give an even number"),
        ({"workloads": ("A", "E")}, "workloads: E: use A, B, C, F"),
        ({"runs": 0}, "runs: give at least one"),
        ({"operations": ()}, "operations: give at least one"),
    ],
)
def test_impossible_plan_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**change)  # type: ignore[arg-type]


def test_plan_grows_fog_and_records_in_order_of_size() -> None:
    plan = Plan(nodes=(20, 6), operations=(5000, 1000), workloads=("B", "A"))
    assert plan.sizes == (6, 20)
    assert plan.counts == (1000, 5000)
    assert [workload.name for workload in plan.chosen] == ["A", "B"]


@pytest.mark.parametrize(("name", "reads"), [("A", 0.5), ("B", 0.95), ("C", 1.0)])
def test_workload_has_its_share_of_reads_of_existing_keys(name: str, reads: float) -> None:
    operations = _operations(name, 4000)
    kinds = Counter(each.kind for each in operations)
    assert kinds["read"] / 4000 == pytest.approx(reads, abs=0.02)
    assert set(kinds) <= {"read", "update"}
    assert {each.key for each in operations} <= {key_of(number) for number in range(1000)}


def test_workload_prefers_one_key_as_zipf_does() -> None:
    keys = Counter(each.key for each in _operations("C", 4000))
    # The first of 1,000 ranks has 1 ÷ Σ rank^-0.99 of the operations.
    assert keys.most_common(1)[0][1] / 4000 == pytest.approx(0.13, abs=0.02)


def test_same_run_has_same_operations_for_both_stores_and_clients_share_them() -> None:
    operations = _operations("A", 103)
    assert operations == _operations("A", 103)
    parts = split(operations, 16)
    assert sorted(map(len, parts)) == [6] * 9 + [7] * 7
    assert Counter(each for part in parts for each in part) == Counter(operations)


@pytest.mark.parametrize("store", ["Mistbow", "Redis"])
def test_operation_is_sent_to_owner_of_its_key(store: str) -> None:
    servers: Sequence[Server] = (
        [Mistbow(f"http://n{number}:8300", "secret") for number in range(2)]
        if store == "Mistbow"
        else [Redis(6379)] * 2
    )
    target = _target(servers)
    read, update = (
        (
            post("http://n1:8300", "/app/get", {"key": ["k1"]}, "secret"),
            post("http://n1:8300", "/app/put", _ITEM, "secret"),
        )
        if store == "Mistbow"
        else (command("GET", "k1"), command("SET", "k1", "v"))
    )
    assert target.requests(KeyOperation("read", "k1"), "v") == [NodeRequest(1, read, RECORD_BYTES)]
    assert target.requests(KeyOperation("update", "k1"), "v") == [NodeRequest(1, update)]
    assert len(target.requests(KeyOperation("modify", "k1"), "v")) == 2


def test_token_is_sent_in_a_header_of_its_own() -> None:
    head = post("http://n1:8300", "/app/get", {}, "secret").split(b"\r\n")
    assert b"Authorization: Bearer secret" in head
    assert not any(line.startswith(b"Authorization") for line in post("http://n1", "/", {}).split())


def test_runs_are_stored_and_read_unchanged_and_later_runs_replace_equal_cases(
    tmp_path: Path,
) -> None:
    runs = list(_runs())
    write(runs, tmp_path / "runs.csv")
    assert sorted(read(tmp_path / "runs.csv"), key=repr) == sorted(runs, key=repr)
    assert read(tmp_path / "absent.csv") == []
    again = [dataclasses.replace(run, rate=1.0, number=9) for run in runs if run.nodes == 6]
    merged = merge(runs, again)
    assert [run for run in merged if run.nodes == 20] == [run for run in runs if run.nodes == 20]
    assert [run for run in merged if run.nodes == 6] == again


def test_summary_has_medians_and_extremes_of_runs() -> None:
    [*_, last] = summaries(_runs())
    assert last.case == ("A", 20, 5000, "Redis", True)
    assert (last.rate, last.rates) == (2000.0, (1990.0, 2010.0))


def test_findings_compare_stores_replicas_sizes_and_operations() -> None:
    assert findings(summaries(_runs())) == [
        "Workload A, without replicas: Redis completes 2.0 to 4.0 times the operations per second "
        "of Mistbow. It is faster by more than 5% in 4 of 4 cases, and slower in 0. Mean latency: "
        "Mistbow 8.0 ms, Redis 8.0 ms.",
        "Workload A, with replicas: Redis completes 4.0 to 8.0 times the operations per second of "
        "Mistbow. It is faster by more than 5% in 4 of 4 cases, and slower in 0. Mean latency: "
        "Mistbow 8.0 ms, Redis 8.0 ms.",
        "With replicas, Redis completes 1.0 times the operations per second that it completes "
        "without. The replicas had all records at most 0.5 s after the end of a run.",
        "On 20 nodes, Redis completes 1.0 times the operations per second of 6 nodes.",
        "In runs of 5,000 operations on 6 and 20 nodes, Redis completes 1.0 times the operations "
        "per second of runs of 1,000.",
        "Under Redis, the cores of the host are 50% to 50% busy. Without requests, its processes "
        "use 0.05 to 0.20 cores.",
        "With replicas, Mistbow completes 0.50 times the operations per second that it completes "
        "without. The replicas had all records at most 0.5 s after the end of a run.",
        "On 20 nodes, Mistbow completes 0.50 times the operations per second of 6 nodes.",
        "In runs of 5,000 operations on 6 and 20 nodes, Mistbow completes 1.0 times the operations "
        "per second of runs of 1,000.",
        "Under Mistbow, the cores of the host are 95% to 95% busy: in 8 of 8 cases the host "
        "limits the store. Without requests, its processes use 0.05 to 0.20 cores.",
        "The links alone take 6.2 ms of each operation, so 16 clients complete at most 2,581 "
        "operations per second with any store.",
        *_NOT_MEASURED,
    ]


def test_findings_name_cases_that_were_not_measured_and_sizes_of_other_days() -> None:
    lacking = ("A", 20, 5000, "Mistbow", True)
    runs = [
        dataclasses.replace(run, day="2026-12-01") if run.nodes == 6 else run
        for run in _runs()
        if run.case != lacking
    ]
    larger = [dataclasses.replace(run, operations=9000) for run in runs if run.nodes == 6]
    assert findings(summaries([*runs, *larger]))[-7:] == [
        "Measured on several days: 20 nodes on 2026-11-30; 6 nodes on 2026-12-01. The host's speed "
        "may differ between days, so only the stores on fogs of one size are comparable.",
        "Not measured: Mistbow, replicas, workload A, 5,000 operations on 20 nodes.",
        *_NOT_MEASURED[:2],
        "Not measured: runs of 9,000 operations on 10, 14 and 20 nodes.",
        *_NOT_MEASURED[2:],
    ]


def test_page_has_a_row_for_each_case_and_names_the_absent_store() -> None:
    page = Page([run for run in _runs() if run.store == "Mistbow"]).markdown()
    assert "Redis was not measured: `redis-server` and `redis-cli` were not installed." in page
    assert "![Throughput and latency of workload A](ycsb_fog_a.svg)" in page
    cells = "Mistbow, replicas | 500 | 490 to 510 | 8.0 | 9.0 | 10.0 | 95% | 0.05 | 300"
    assert f"| A | 6 | 1,000 | {cells} |" in page
    assert page.count("\n| A |") == 8


def test_equal_results_give_equal_plots(tmp_path: Path) -> None:
    found = summaries(_runs())
    for name in ("one.svg", "other.svg"):
        write_plot(found, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "other.svg").read_text()
    assert "Mistbow, replicas" in text


def test_panels_of_a_row_show_the_runs_of_all_sizes() -> None:
    figure = Figure()
    draw_panels(
        figure,
        summaries(dataclasses.replace(run, mean_ms=run.nodes * 5.0) for run in _runs()),
    )
    tops = [axes.get_ylim()[1] for axes in figure.axes if "mean" in axes.get_ylabel()]
    assert min(tops) >= 100.0


def test_panels_of_all_sizes_have_the_same_numbers_of_operations() -> None:
    figure = Figure()
    draw_panels(
        figure, summaries(run for run in _runs() if run.nodes == 6 or run.operations == 5000)
    )
    for axes in figure.axes[-2:]:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1,000", "5,000"]
    [*_, last] = figure.axes
    assert list(np.asarray(last.lines[0].get_xdata())) == [1]


_NOT_MEASURED = [
    "Not measured: runs of 1,000 operations on 10 and 14 nodes.",
    "Not measured: runs of 5,000 operations on 10 and 14 nodes.",
    "Not measured: runs of 10,000 operations on 6, 10, 14 and 20 nodes.",
    "Not measured: runs of 20,000 operations on 6, 10, 14 and 20 nodes.",
]
"""What the specification has, and the runs of these tests lack."""

_ITEM = {"application": [{"key": "k1", "val": "v", "timestamp": 1}]}


def _operations(name: str, count: int) -> list[KeyOperation]:
    [workload] = [each for each in SUPPORTED if each.name == name]
    source = OperationSource(workload, random.Random(3), 1000)
    return [source.next() for _ in range(count)]


def _target(servers: Sequence[Server]) -> Target:
    async def read_reply(_: object) -> int:
        return 0

    return Target(
        store="Redis",
        nodes=2,
        replicas=False,
        addresses=[("n0", 1), ("n1", 1)],
        servers=servers,
        owner=lambda key: int(key[1:]),
        read_reply=read_reply,
        wait_replicas=lambda: None,
        pids=(),
    )


def _runs() -> Iterator[RunResult]:
    """Yield three runs of each case: Redis completes 2,000/s; Mistbow 1,000/s on 6 nodes without
    replicas, half on 20 nodes, and half with replicas.
    """
    for nodes in (6, 20):
        for store in ("Redis", "Mistbow"):
            for replicas in (False, True):
                rate = 2000.0
                if store == "Mistbow":
                    rate = 1000.0 / (1 + (nodes == 20)) / (1 + replicas)
                for operations in (1000, 5000):
                    for number in (1, 2, 3):
                        yield RunResult(
                            nodes=nodes,
                            store=store,
                            replicas=replicas,
                            workload="A",
                            operations=operations,
                            number=number,
                            clients=16,
                            rate=rate + 10 * (number - 2),
                            mean_ms=8.0,
                            p95_ms=9.0,
                            p99_ms=10.0,
                            behind_s=0.5 * replicas,
                            busy=0.5 if store == "Redis" else 0.95,
                            rest_cores=0.05 if nodes == 6 else 0.2,
                            node_mb=300.0,
                            delay_ms=3.1,
                            day="2026-11-30",
                        )
