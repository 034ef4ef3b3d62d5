"""Benchmark of the emulated links: what containers measure, beside the Fogify files.

It needs root, a Docker daemon, and the image ``mistbow`` (``MISTBOW_IMAGE``). The nodes run no
service, so that only the links are measured.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.report import Figure, Goals
from fog_emulation import model
from fog_emulation.backend import start_fog
from fog_emulation.docker_backend import DockerBackend
from fog_emulation.measure import Measurement, compared, lost_share, measure, pairs, way_of
from fog_emulation.plan import plan
from fog_emulation.services import ComposeService
from fog_emulation.topology import FogPlan
from mistbow.clock import utc_now

_ROOT = Path(__file__).parents[1]
_FILES = (
    _ROOT / "docker-compose.yml",
    _ROOT / "fogify_scenarios" / "bus_fleet.yml",
    _ROOT / "fogify_scenarios" / "factory.yml",
)
_COMMAND = ["sleep", "3600"]
_PACKETS = 100_000
"""The number of packets for which 0.1 points are four standard errors of a loss of 0.6 %."""

_MAX_ERROR = 0.1
_MAX_LOSS_ERROR = 0.001
_MAX_RATE_BPS = 150_000_000
"""The rate that a delay line forwards, see docs/emulated-fog.md."""

_HEAD = (
    "file",
    "network",
    "direction",
    "Mbit/s, configured / measured",
    "loss, configured / measured",
    "delay, configured / measured",
)
_HOW = (
    "Links between containers on {cores} cores, on {date}, measured from inside of the containers: "
    "the first two nodes of each network and of each link. The median delay is that of 1,000 "
    "packets, the loss that of {packets:,}. Goals: bandwidth and delay within 10 % of the file, "
    "and a loss within 0.1 points. Bandwidths above {limit:.0f} Mbit/s have no goal, because delay "
    "lines, which replace `netem` where the kernel lacks it, do not reach them."
)


def run() -> Goals:
    """Measure the links of all Fogify files in containers; this takes 4 minutes."""
    found = [(file, row) for file in _FILES for row in _measure(file)]
    return Goals(
        "Links of the emulated fogs",
        _HOW.format(
            cores=os.cpu_count(),
            date=f"{utc_now():%Y-%m-%d}",
            packets=_PACKETS,
            limit=_MAX_RATE_BPS / 1e6,
        ),
        [figure for _, row in found for figure in _figures(row)],
        _HEAD,
        [_cells(file, row) for file, row in found],
    )


def _measure(file: Path) -> Iterator[Measurement]:
    fog = plan(model.load(file))
    with _running(fog) as backend:
        for way in pairs(fog):
            row = measure(backend, fog.directions, *way)
            loss = lost_share(backend, fog.directions, *way, _PACKETS)
            yield replace(row, found=replace(row.found, loss=loss))


@contextmanager
def _running(fog: FogPlan) -> Iterator[DockerBackend]:
    idle = ComposeService(os.environ.get("MISTBOW_IMAGE", "mistbow"), entrypoint=_COMMAND)
    backend = DockerBackend(
        f"links-{os.getpid()}", fog, dict.fromkeys((node.service for node in fog.nodes), idle)
    )
    try:
        start_fog(backend)
        yield backend
    finally:
        backend.down()


def _figures(row: Measurement) -> Iterator[Figure]:
    way, found, expected = way_of(row), row.found, row.expected
    if expected.rate_bps is not None and expected.rate_bps <= _MAX_RATE_BPS:
        assert found.rate_bps is not None
        error = abs(found.rate_bps / expected.rate_bps - 1)
        yield Figure(f"{way}: error of the bandwidth", "", [error], at_most=_MAX_ERROR)
    if expected.delay_ms:
        error = abs(found.delay_ms / expected.delay_ms - 1)
        yield Figure(f"{way}: error of the delay", "", [error], at_most=_MAX_ERROR)
    error = abs(found.loss - expected.loss)
    yield Figure(f"{way}: error of the loss", "", [error], at_most=_MAX_LOSS_ERROR)


def _cells(file: Path, row: Measurement) -> tuple[str, ...]:
    return (file.stem, row.network, f"{row.source} to {row.target}", *compared(row))
