"""The calibration of a worker: the speed of its processor at the work of fragments.

The estimates of the enabler's cost model are CPU times on a reference machine, divided by the speed
of a worker. The work is that of a fragment in small: points are batched, grouped and merged by
Arrow and numpy, and rows are encoded. The result is stored in the worker's home, until the
processor, the number of cores, or the libraries change.
"""

import hashlib
import platform
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.lifecycle.capacity import cores
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_VERSION = 1
_ROUNDS = 100
_POINTS = 20_000
REFERENCE_ROUND_S = 0.005
"""The CPU time (s) of a round on the reference machine, whose speed is 1."""


class Calibration(msgspec.Struct, frozen=True):
    """The speed of a worker; ``key``: the hardware and software of the measurement."""

    key: str
    speed: float


def calibrated_speed(
    path: Path, measure: Callable[[], float] | None = None, key: str | None = None
) -> float:
    """Return the speed of this worker relative to the reference machine.

    ``path``: the file with the last calibration, which is used if its key is still right.
    """
    key = calibration_key() if key is None else key
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError):
        found = None
    if found is not None and found.key == key and found.speed > 0:
        return found.speed
    speed = (measure or measured_speed)()
    log.info("worker_calibrated", speed=round(speed, 2))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(Calibration(key, speed)))
    return speed


def calibration_key() -> str:
    """Return a text that changes with the processor, the cores, and the libraries."""
    parts = (_VERSION, _processor(), cores(), platform.python_version(), pa.__version__)
    return hashlib.blake2s(repr(parts).encode(), digest_size=8).hexdigest()


def measured_speed() -> float:
    """Measure for about a second; return the speed, from the median CPU time of a round."""
    numbers = np.random.default_rng(1)
    keys = pa.array(numbers.integers(0, 50, _POINTS).astype(str)).dictionary_encode()
    points = pa.table(
        {
            "key": keys,
            "ts": numbers.integers(0, 60_000, _POINTS),
            "value": numbers.normal(size=_POINTS),
        }
    )
    rounds = sorted(_round_s(points) for _ in range(_ROUNDS))
    return round(REFERENCE_ROUND_S / max(rounds[_ROUNDS // 2], 1e-6), 2)


def _round_s(points: pa.Table) -> float:
    began = time.thread_time()
    panes = points.set_column(1, "ts", pc.multiply(pc.divide(points["ts"], 1000), 1000))
    # One thread: the CPU time of Arrow's own threads would not count.
    grouped = panes.group_by(["key", "ts"], use_threads=False).aggregate(
        [("value", "sum"), ("value", "count"), ("value", "min"), ("value", "max")]
    )
    order = np.lexsort((points["value"].to_numpy(), points["ts"].to_numpy()))
    medians = np.median(points["value"].to_numpy()[order].reshape(-1, 100), axis=1)
    msgspec.json.encode([*grouped.slice(0, 500).to_pylist(), *medians.tolist()])
    return time.thread_time() - began


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
