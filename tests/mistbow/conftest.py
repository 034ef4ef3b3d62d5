"""Fixtures of the tests of the code that all services share."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from mistbow.auth.fog_keys import FogKeys


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """Restore the logging of the process after a test that sets it up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    former = structlog.get_config()
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    # Else later loggers would stay with this configuration, which `capture_logs` does not see.
    structlog.configure(**former)


@pytest.fixture
def fog(fog_keys: FogKeys) -> FogKeys:
    """Return the new keys of a fog."""
    return fog_keys
