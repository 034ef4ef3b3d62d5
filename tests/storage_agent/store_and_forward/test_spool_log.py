"""The log of a spool whose disk fails: once, and then at intervals."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mistbow.errors import UnavailableError
from storage_agent.log_limit import LOG_INTERVAL_S, LogLimit
from storage_agent.request_key import RequestKey
from storage_agent.store_and_forward.spool import Spool


def test_limit_permits_one_event_per_interval_and_counts_the_others() -> None:
    now = 7.0
    limit = LogLimit(lambda: now)
    assert [limit.permit() for _ in range(3)] == [0, None, None]
    now += LOG_INTERVAL_S - 0.1
    assert limit.permit() is None
    now += 0.1
    assert [limit.permit(), limit.permit()] == [3, None]
    now += 3 * LOG_INTERVAL_S
    assert limit.permit() == 1


async def test_spool_logs_the_first_of_many_failures(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 2**20)  # a folder, not a file
    with capture_logs() as logs:
        for number in range(20):
            with pytest.raises(UnavailableError, match="cannot be read or written"):
                await spool.append(RequestKey(f"k{number}"), b"{}", 1)
    (entry,) = [each for each in logs if each["event"] == "spool_io_failed"]
    assert (entry["suppressed"], bool(entry["error"]), bool(entry["hint"])) == (0, True, True)
    await spool.close()
