"""An Ignite without a disk rejects appends before its memory is full, and does not end."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.errors import StorageFullError
from tests.support.services import storage_agent

_BATCH_BYTES = 6 * 2**20
_BATCHES = 80
"""The appends: almost twice the size of the memory region."""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("when_full", ["evict", "refuse"])
def test_appends_are_rejected_before_the_memory_is_full(tmp_path: Path, when_full: str) -> None:
    with (
        IgniteServer(tmp_path, durability="memory") as ignite,
        storage_agent(tmp_path, ignite.port, durability="memory", when_full=when_full) as running,
        closing(AgentClient(running.url)) as agent,
    ):
        # Random bytes cannot be compressed.
        chance = np.random.default_rng(1)
        schema = pa.schema([("data", pa.binary())])
        agent.create_stream("large", schema)
        stored = 0

        def append_all() -> None:
            nonlocal stored
            for _ in range(_BATCHES):
                rows = [chance.bytes(_BATCH_BYTES // 8) for _ in range(8)]
                agent.append("large", pa.record_batch([pa.array(rows, pa.binary())], schema))
                stored += len(rows)

        with pytest.raises(StorageFullError):
            append_all()
        assert stored * _BATCH_BYTES // 8 > 64 * 2**20
        assert agent.info("large").head == stored
