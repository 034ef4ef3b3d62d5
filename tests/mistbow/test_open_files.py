"""The limit on open files."""

import resource
from collections.abc import Iterator

import pytest

from mistbow.open_files import max_connections, raise_file_limit


@pytest.fixture
def hard() -> Iterator[int]:
    """Lower the limit to 256 files for the test; yield the limit up to which it can be raised."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_half_of_the_raised_limit_is_for_connections(hard: int) -> None:
    assert max_connections() == 128
    raise_file_limit()
    raised = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    assert max_connections() == raised // 2
