"""Fogs of network namespaces for tests; they need root and Debian's iproute2 and iptables."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mistbow.fog_emulation.backend import raise_fog
from mistbow.fog_emulation.namespace_backend import NamespaceBackend
from mistbow.fog_emulation.parts import FogPlan
from mistbow.fog_emulation.plan import plan
from tests.mistbow.fog_emulation.cities import parsed, small_city

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "iptables-restore"))),
    reason="network namespaces need root, iproute2 and iptables",
)


def fog_of(quality: dict[str, Any], links: list[dict[str, Any]] | None = None) -> FogPlan:
    """Return a plan of the nodes a-1, b-1 and b-2 in the network ``net``."""
    compose = small_city()
    network = compose["x-fogify"]["networks"][0]
    network |= {"bidirectional": quality, "links": links or []}
    return plan(parsed(compose))


def new_name() -> str:
    """Return a name that no other fog has."""
    return f"test-{uuid.uuid4().hex[:8]}"


@contextmanager
def standing(fog: FogPlan) -> Iterator[NamespaceBackend]:
    """Have a fog stand, but for limits of processor and memory."""
    backend = NamespaceBackend(new_name(), fog)
    raise_fog(backend, lenient=True)
    try:
        yield backend
    finally:
        backend.down()
