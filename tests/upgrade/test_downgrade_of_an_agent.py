"""Agents of earlier versions that open the data of this version."""

from pathlib import Path

import pytest

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from tests.storage_agent.compatibility.make_store import NODE, fill, read
from tests.storage_agent.compatibility.test_compatibility import comparable
from tests.support.services import Service
from tests.upgrade.former_version import (
    COMMIT_WITH_IDENTITIES,
    FORMER_COMMIT,
    command_of_former_version,
    unpack_former_version,
)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("processes"),
]


@pytest.mark.parametrize("commit", [FORMER_COMMIT, COMMIT_WITH_IDENTITIES])
def test_earlier_agent_answers_as_this_version_did(commit: str, tmp_path: Path) -> None:
    folder, home = tmp_path / "former", tmp_path / "home"
    unpack_former_version(folder, commit)
    [port] = free_ports(1)
    with IgniteServer(home, durability="log") as ignite:
        settings: dict[str, object] = {
            "home": home,
            "node": NODE,
            "agent_port": port,
            "ignite_port": ignite.port,
            "durability": "log",
            "collect_routes": "false",
        }
        present = Service("storage_agent", port, settings)
        former = Service("storage_agent", port, settings, command_of_former_version(folder))
        expected = None
        for agent in (present, former, present):
            agent.start()
            try:
                if expected is None:
                    fill(agent.url)
                    expected = read(agent.url)
                for got, wanted in zip(read(agent.url), expected, strict=True):
                    assert comparable(got) == comparable(wanted)
            finally:
                agent.stop()
