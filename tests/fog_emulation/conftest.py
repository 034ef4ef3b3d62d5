"""The fixture ``run_fog``, which runs fogs of network namespaces."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.topology import FogPlan
from tests.fog_emulation.namespaces import running_fog

RunFog = Callable[[FogPlan], AbstractContextManager[NamespaceBackend]]


@pytest.fixture
def run_fog(processes: None) -> RunFog:
    """Return a function that runs a fog of network namespaces within a ``with``."""
    return running_fog
