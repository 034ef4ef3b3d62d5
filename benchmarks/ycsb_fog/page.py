"""The page of the results: how they were measured, what they say, and a row for each case."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import psutil
from rich.table import Table

from benchmarks.report import Figure
from benchmarks.ycsb_fog.findings import findings, listed
from benchmarks.ycsb_fog.plan import CLIENT, LINK, SPECIFIED_OPERATIONS
from benchmarks.ycsb_fog.results import RunResult, Summary, summaries

_TITLE = "YCSB on an emulated fog"
_HEAD = (
    "workload", "nodes", "operations", "store", "1/s", "1/s, min to max", "mean ms", "p95 ms",
    "p99 ms", "busy", "cores at rest", "MB a node",
)  # fmt: skip


@dataclass(frozen=True)
class Page:
    """The page of runs; it has no goals."""

    runs: Sequence[RunResult]
    figures: Sequence[Figure] = ()

    def table(self) -> Table:
        """Return the cases as a table for a terminal."""
        table = Table(*_HEAD, title=_TITLE)
        for each in self._summaries:
            table.add_row(*_cells(each))
        return table

    def markdown(self) -> str:
        """Return the page as Markdown."""
        rows = [_HEAD, ("---",) * len(_HEAD), *map(_cells, self._summaries)]
        plots = [
            f"![Throughput and latency of workload {name}]({plot_name(name)})"
            for name in workloads(self.runs)
        ]
        return "\n".join(
            [
                f"# {_TITLE}",
                "",
                "`python -m benchmarks ycsb_fog`: the experiment of the specification (section "
                "3.2.3). `ycsb_fog.csv` has every run. The host has "
                f"{psutil.cpu_count()} cores and {psutil.virtual_memory().total / 2**30:.0f} GB.",
                "",
                "## What the figures say",
                "",
                *(f"- {sentence}" for sentence in self._sentences()),
                "",
                *plots,
                "",
                "## How it was scaled",
                "",
                *_HOW,
                "",
                "## All cases",
                "",
                "Medians of the runs. Busy: the share of the host's cores that all processes used, "
                "also the clients and the delay lines. Cores at rest, and MB (PSS): of the "
                "store's processes.",
                "",
                *(f"| {' | '.join(row)} |" for row in rows),
                "",
            ]
        )

    def _sentences(self) -> list[str]:
        found = findings(self._summaries)
        if not any(run.store == "Redis" for run in self.runs):
            found.append(
                "Redis was not measured: `redis-server` and `redis-cli` were not installed."
            )
        return found

    @cached_property
    def _summaries(self) -> list[Summary]:
        return summaries(self.runs)


def workloads(runs: Sequence[RunResult]) -> list[str]:
    """Return the names of the workloads of runs, sorted."""
    return sorted({run.workload for run in runs})


def plot_name(workload: str) -> str:
    """Return the name of the file with the plot of a workload.

    >>> plot_name("A")
    'ycsb_fog_a.svg'
    """
    return f"ycsb_fog_{workload.lower()}.svg"


def _cells(each: Summary) -> tuple[str, ...]:
    case = each.case
    least, greatest = each.rates
    return (
        case.workload,
        str(case.nodes),
        f"{case.operations:,}",
        case.system,
        f"{each.rate:,.0f}",
        f"{least:,.0f} to {greatest:,.0f}",
        *(f"{each.median(field):.1f}" for field in ("mean_ms", "p95_ms", "p99_ms")),
        f"{each.median('busy'):.0%}",
        f"{each.median('rest_cores'):.2f}",
        f"{each.median('node_mb'):,.0f}",
    )


assert LINK.rate_bps is not None
_HOW = (
    "- Nodes: network namespaces on one host. No storage agents share a node: each node of Mistbow "
    "has an agent and an Ignite of its own (Java heap of 128 MB), and each node of Redis a server. "
    "All of them share the cores of the host, with the clients and the links. The specification's "
    "nodes had a core of 1 GHz and 1 GB each, on a host with 64 GB that was never "
    "saturated; here no node has a limit of its own, and there is less for each, the more nodes "
    "there are.",
    "- Fabric: the sites of Mistbow form pairs, and the agents of a pair know only each other. In "
    "one fabric of all sites, heartbeats and metadata take more of the host's cores, the more "
    "sites there are: in a trial on two cores, beside other programs, 10 sites used 1.1 cores "
    "without requests. So the figures lack the cost of a large fabric, whereas the nodes of Redis "
    "form one cluster.",
    f"- Links: {LINK.delay_ms:g} ms on the way out of each node and {LINK.rate_bps / 1e6:,.0f} "
    "Mbit/s, as in the specification. Where the kernel has no netem, a process for each node "
    "delays the packets. It passes fewer than 10,000 Mbit/s; the load needs below 1 % of that.",
    f"- Clients: one process in the node `{CLIENT}`, which has the same link. They know which node "
    "stores a key, as clients of Redis Cluster do, so no request is passed on.",
    "- Records: one value of 1,000 bytes, which an update replaces (YCSB: ten fields of 100 bytes, "
    "of which an update replaces one). There are as many records as operations. Keys are drawn by "
    "YCSB's Zipf distribution. Mistbow stores records by `/app/put` and reads them by `/app/get`.",
    f"- Operations: the specification has runs of {listed(SPECIFIED_OPERATIONS)}; runs of 2,000 "
    "are additional. Cases that the findings name as not measured have not been run.",
    "- Workloads: A and B, by default. C and F are possible. D and E are not measured: with D, a "
    "client may read a record before another client has stored it; E scans records, and the nodes "
    "of a cluster answer no scans.",
    "- In memory, as in the specification: `MISTBOW_DURABILITY=memory`; Redis Cluster without "
    "snapshots and log.",
    "- Replicas: each site of Mistbow has a copy of its records at its partner, so every node "
    "answers requests. With Redis, half of the nodes are leaders, and the others their replicas. "
    "Both replicate after the answer, and all reads go to the owner of the key.",
    "- The stores run one after the other. The sites of Mistbow are started once, and the fog "
    "grows; a cluster of Redis is created for each size. The specification also measures Ignite's "
    "SQL, which Mistbow does not use for records.",
)
