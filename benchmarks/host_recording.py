"""Reads and makes recordings of host metrics.

``python -m benchmarks.host_recording SECONDS`` makes a new recording.
"""

import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mistbow.clock import system_clock
from monitoring_agent.collectors.host import HostCollector

PATH = Path(__file__).parent / "recordings" / "host.parquet"

_METRICS = (
    "cpu.util", "cpu.core.util", "load.1m", "memory.util", "memory.used", "disk.written.rate",
    "network.received.rate", "network.sent.rate",
)  # fmt: skip


def read_recording() -> dict[str, npt.NDArray[np.float64]]:
    """Return the recorded series whose values change: name -> values, one per second."""
    table = pq.read_table(PATH).to_pandas()
    series = {
        f"{metric} {entity}": rows.sort_values("ts")["value"].to_numpy()
        for (metric, entity), rows in table.groupby(["metric", "entity"])
    }
    return {name: values for name, values in series.items() if np.ptp(values) > 0}


def record(seconds: int) -> None:
    """Measure this host each second for some seconds; write the points to ``PATH``."""
    collector, rows = HostCollector("host"), []
    due = time.monotonic()
    for _ in range(seconds):
        rows += [
            {"metric": point.metric, "entity": point.entity, "ts": point.ts, "value": point.value}
            for point in collector.collect(system_clock())
            if point.metric in _METRICS
        ]
        due += 1
        time.sleep(max(0.0, due - time.monotonic()))
    PATH.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), PATH, compression="zstd")


if __name__ == "__main__":
    record(int(sys.argv[1]))
