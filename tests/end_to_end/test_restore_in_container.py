"""``mistbow restore`` in the image, as the documentation of backups shows it."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.image import NAME as IMAGE
from storage_agent.backup.archive import Archive, BackupContents
from tests.support.emulated_fogs import NEED_IMAGE

pytestmark = [*NEED_IMAGE, pytest.mark.usefixtures("containers")]

_USER = 10001
_HOME = "/var/lib/mistbow"


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def stopped() -> Iterator[str]:
    """Create a container with the volume of a site, and yield its name."""
    name = f"mistbow-test-{uuid.uuid4().hex[:8]}"
    docker("create", "--name", name, "--volume", _HOME, IMAGE, "storage")
    yield name
    docker("rm", "--volumes", name)


def test_backup_is_restored_to_the_volume_of_a_stopped_container(
    stopped: str, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    archive = Archive(str(backup))
    series = archive.write("series.jsonl", b"")
    archive.finish(
        BackupContents(
            format=1, id="b", site="edge-1", node="edge-1", cut=1, streams=(), series=series
        )
    )
    for path in (backup, *backup.iterdir()):
        os.chown(path, _USER, _USER)
    volumes = ("--volumes-from", stopped, "--volume", f"{backup}:/backups/edge-1:ro")
    output = docker("run", "--rm", *volumes, IMAGE, "restore", "/backups/edge-1")
    assert f"restored edge-1 to {_HOME}: 0 streams" in output
    found = docker("run", "--rm", *volumes, "--entrypoint", "ls", IMAGE, f"{_HOME}/ignite/db")
    assert "mistbow" in found
