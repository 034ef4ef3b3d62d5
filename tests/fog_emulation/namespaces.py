"""Fogs of network namespaces for tests, which need root and Debian's iproute2 and iptables."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fog_emulation.backend import start_fog
from fog_emulation.measure import Measurement
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.plan import plan
from fog_emulation.topology import FogPlan
from tests.fog_emulation.cities import parsed, small_city
from tests.support.programs import required

DIRECTED_LINK = {
    "from_node": "a",
    "to_node": "b",
    "uplink": {"bandwidth": "8Mbps", "latency": {"delay": "30ms"}, "drop": "0.2%"},
    "downlink": {"bandwidth": "12Mbps", "latency": {"delay": "6ms"}},
}
"""A link whose directions have different traffic shapes, for ``fog_of``."""

SMALL_LOSS_PACKETS = 40_000
"""The number of packets for which 0.1 points are 4.5 standard errors of a loss of 0.2 %."""

needs_namespaces = required(
    os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "iptables-restore"))),
    "network namespaces need root, iproute2 and iptables",
)


def fog_of(quality: dict[str, Any], links: list[dict[str, Any]] | None = None) -> FogPlan:
    """Return a plan of the nodes a-1, b-1 and b-2 in the network ``net``.

    ``quality``: the quality of all links in the network; ``links``: links with another quality.
    """
    compose = small_city()
    network = compose["x-fogify"]["networks"][0]
    network |= {"bidirectional": quality, "links": links or []}
    return plan(parsed(compose))


def assert_within_a_tenth(row: Measurement) -> None:
    """Assert that the measured bandwidth and delay are within 10 % of those of the file."""
    assert row.found.rate_bps == pytest.approx(row.expected.rate_bps, rel=0.1), row
    assert row.found.delay_ms == pytest.approx(row.expected.delay_ms, rel=0.1), row


def new_name() -> str:
    """Return a unique name of a fog."""
    return f"test-{uuid.uuid4().hex[:8]}"


@contextmanager
def running_fog(fog: FogPlan) -> Iterator[NamespaceBackend]:
    """Run a fog within the ``with``, without limits of processor and memory; yield its backend."""
    backend = NamespaceBackend(new_name(), fog)
    start_fog(backend, lenient=True)
    try:
        yield backend
    finally:
        backend.down()
