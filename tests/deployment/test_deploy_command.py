"""The exit codes and errors of ``python -m deploy``."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import __main__ as deploy_command
from deploy.identities import Delivery
from deploy.image import ROOT
from mistbow.errors import ConflictError
from tests.support.emulated_fogs import NEED_DOCKER


@pytest.fixture
def own_umask() -> Iterator[None]:
    """Restore the umask, which a command changes for its whole process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("own_umask")
def test_fault_of_the_machine_ends_a_command_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.touch()
    monkeypatch.setattr(sys, "argv", ["deploy", "secrets", "--folder", str(folder)])
    with pytest.raises(SystemExit) as ended:
        deploy_command.main()
    assert str(ended.value.code).startswith(f"mistbow: {folder}: File exists\n  hint: ")


def test_delivery_that_leaves_out_a_container_is_not_complete() -> None:
    Delivery({"mistbow-edge-1": "agent.identity"}).check_complete()
    delivery = Delivery({"mistbow-edge-1": "agent.identity"}, {"mistbow-edge-2": "is revoked"})
    assert list(delivery.lines()) == [
        "mistbow-edge-1: agent.identity", "mistbow-edge-2: left out: is revoked"
    ]  # fmt: skip
    with pytest.raises(ConflictError, match="these containers got no files: mistbow-edge-2"):
        delivery.check_complete()


@NEED_DOCKER
@pytest.mark.usefixtures("containers")
def test_identities_of_a_fog_without_containers_are_an_error() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "deploy", "identities"),
        cwd=ROOT,
        env={**os.environ, "COMPOSE_PROJECT_NAME": "mistbow-test-none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the fog mistbow-test-none has no container" in done.stderr
