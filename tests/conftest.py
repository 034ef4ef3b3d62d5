import os
from pathlib import Path

import pytest
from hypothesis import settings

from mistbow.auth.fog_keys import FogKeys

pytest_plugins = ["tests.speeds"]

# How long an example takes depends more on the machine's other work than on the code. CI draws the
# same examples in each run, so that a failure there is one of the change; other runs draw new ones.
# `make unit` chooses the profile "quick", and `make fuzz` the profile "thorough".
_derandomize = "CI" in os.environ
settings.register_profile("mistbow", deadline=None, derandomize=_derandomize)
settings.register_profile("quick", deadline=None, max_examples=40, derandomize=_derandomize)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("mistbow")

# The load of the machine, which other tests cause, must move no fragment.
os.environ.setdefault("MISTBOW_NODE_CORES_FREE", "1000")


@pytest.fixture
def fog_keys(tmp_path: Path) -> FogKeys:
    """Return the new keys of a fog."""
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    return keys


_LONG = ("tests/end_to_end/", "tests/analytics_worker/", "tests/storage_agent/crashes/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests of the slowest folders first, so that no process gets a slow file last."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
