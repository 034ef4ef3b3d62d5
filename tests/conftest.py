import pytest
from hypothesis import settings

# How long an example takes says more of the machine's other work than of the code.
settings.register_profile("mistbow", deadline=None)
settings.load_profile("mistbow")

_LONG = ("tests/end_to_end/", "tests/analytics_worker/", "tests/storage_agent/crashes/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders whose files take minutes: at the end, others would wait for one."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
