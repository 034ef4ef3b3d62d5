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


_SLOW = (
    "tests/analytics_worker/",
    "tests/end_to_end/",
    "tests/storage_agent/crashes/",
    "tests/analytics_enabler/",
)
"""The folders whose tests keep the processor busy for longest, mostly with Spark."""

_SLOW_SHARE = 0.85
"""The share of a run over which their files are spread, so that no process gets one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of the slow folders evenly over the run, folder by folder.

    The other tests mostly wait. So the processes of a run together use the processor evenly.
    """
    rest = list(dict.fromkeys(item.path for item in items if not item.nodeid.startswith(_SLOW)))
    slow = [
        path
        for folder in _SLOW
        for path in dict.fromkeys(item.path for item in items if item.nodeid.startswith(folder))
    ]
    place = {path: number / len(rest) for number, path in enumerate(rest)}
    place |= {path: _SLOW_SHARE * number / len(slow) for number, path in enumerate(slow)}
    items.sort(key=lambda item: place[item.path])
