"""The fixture ``opener`` of streams, for tests of the history of points."""

from tests.storage_agent.streams.conftest import opener

__all__ = ["opener"]
