"""Identities that ``make up`` and ``make identities`` put into hardened containers."""

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.identities import deliver
from fog_emulation.fog_trust import FOLDER, FogTrust
from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now
from tests.support.conditions import eventually
from tests.support.emulated_fogs import IMAGE, NEED_IMAGE

docker = pytest.importorskip("docker")

pytestmark = NEED_IMAGE

LABELS = {
    "mistbow.site": "edge-{replica}",
    "mistbow.identities": "agent,worker",
    "com.docker.compose.container-number": "4",
}


@pytest.fixture
def start(containers: None) -> Iterator[Callable[..., Any]]:
    """Return a function that starts a container as compose does: hardened, with its volume."""
    made = []

    def run(command: list[str], **more: Any) -> Any:
        made.append(
            docker.from_env().containers.run(
                IMAGE,
                command,
                detach=True,
                name=f"test-delivery-{uuid.uuid4().hex[:8]}",
                environment={
                    "MISTBOW_IDENTITY_FILE": f"{FOLDER}/agent.identity",
                    "MISTBOW_TOKENS_FILE": f"{FOLDER}/tokens.json",
                },
                labels=LABELS,
                volumes=[FOLDER],
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                init=True,
                **more,
            )
        )
        return made[-1]

    yield run
    for container in made:
        container.remove(force=True, v=True)


def test_container_waits_for_its_identities(start: Callable[..., Any], tmp_path: Path) -> None:
    trust = FogTrust(tmp_path / "trust")
    edge = start(["token", "list", "--file", f"{FOLDER}/tokens.json"])
    eventually(lambda: b"waiting for" in edge.logs(), what="it waits")
    assert deliver([edge], trust) == {edge.name: "agent.identity, tokens.json, worker.identity"}
    assert edge.wait(timeout=60)["StatusCode"] == 0
    assert b"sender" in edge.logs()
    assert deliver([edge], trust) == {}


def test_running_container_gets_changed_files_and_changes_none(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    trust, keys = FogTrust(tmp_path / "trust"), FogKeys(tmp_path / "trust" / "keys")
    edge = start(["60"], entrypoint=["sleep"])

    def inside(command: str) -> bytes:
        ended = edge.exec_run(["sh", "-c", f"{command} 2>&1"])
        return bytes(ended.output)

    deliver([edge], trust)
    own = f"{FOLDER}/agent.identity"
    assert inside(f"cat {own}") == (keys.folder / "agent-edge-4.identity").read_bytes()
    assert inside(f"stat -c %a:%u {own}").strip() == b"400:10001"
    assert b"denied" in inside(f"rm -f {own}")
    assert b"denied" in inside(f"echo > {own}")
    before = inside(f"cat {own}")
    keys.issue("agent-edge-4", "agent", "edge-4", utc_now() + timedelta(days=3))
    assert deliver([edge], trust) == {edge.name: "agent.identity"}
    assert inside(f"cat {own}") != before
    assert inside(f"ls -A {FOLDER}").split() == [
        b"agent.identity", b"tokens.json", b"worker.identity"
    ]  # fmt: skip
    keys.revoke("worker-edge-4")
    assert "worker-edge-4 is revoked" in deliver([edge], trust)[edge.name]
