"""A home and its files are for their owner only, with any umask and any earlier modes."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.home_lock import home_lock
from mistbow.private_files import make_home
from mistbow.telemetry import LogFile, make_log_folder
from storage_agent.request_key import RequestKey
from storage_agent.store_and_forward.spool import Spool
from tests.support.programs import required

_USER = 10001
"""The user and the group of the image."""


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Let the process create files that all users can write."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """Return the files and folders that other users can use, with their modes."""
    return [
        f"{path} {mode(path):o}"
        for path in (folder, *folder.rglob("*"))
        if not path.is_symlink() and mode(path) & 0o077
    ]


async def test_new_home_and_its_files_are_private(tmp_path: Path) -> None:
    home = tmp_path / "parent" / "home"
    assert make_home(home) == []
    with home_lock(home, "agent", "mistbow agent"):
        spool = Spool(home / "agent" / "spool.db", 2**20)
        await spool.append(RequestKey("a"), b"{}", 1)
        write_token_file(home / "tokens" / "tokens.json", new_token_file())
        assert open_to_others(tmp_path / "parent") == []
        assert {mode(home), mode(home / "agent")} == {0o700}
        assert {mode(file) for file in (home / "agent").iterdir()} == {0o600}
        await spool.close()


@required(os.geteuid() == 0, "needs root, to be two users")
def test_home_in_a_volume_of_root_is_private() -> None:
    """Kubernetes creates volumes that belong to root and are open to the group of the pod."""
    with TemporaryDirectory() as folder:
        volume = Path(folder, "volume")
        Path(folder).chmod(0o755)
        volume.mkdir()
        os.chown(volume, 0, _USER)
        volume.chmod(0o2775)
        os.setegid(_USER)
        os.seteuid(_USER)
        try:
            assert len(make_home(volume)) == 1
            assert make_home(volume / "home") == []
        finally:
            os.seteuid(0)
            os.setegid(0)
        assert mode(volume / "home") & 0o777 == 0o700


def test_home_with_wider_modes_is_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    outside = tmp_path / "outside"
    outside.write_text("of another program")
    for name in ("agent/spool.db", "ignite/db/n/part-0.bin", "logs/agent.jsonl.1", "jars/a.jar"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    (home / "agent.lock").touch()
    (home / "logs" / "link").symlink_to(outside)
    for path in home.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o777)
    assert make_home(home) == []
    assert open_to_others(home) == []
    assert mode(home / "ignite" / "db") == 0o700
    assert mode(outside) == 0o666


def test_files_for_the_image_stay_readable_in_a_closed_home(tmp_path: Path) -> None:
    token = tmp_path / "compose" / "token"
    token.parent.mkdir()
    token.write_text("x")
    token.chmod(0o644)
    make_home(tmp_path)
    assert mode(token) == 0o644
    assert mode(tmp_path) == 0o700


def test_folder_that_users_share_is_left_open_and_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    [problem] = make_home(tmp_path)
    assert "choose a folder of its own" in problem
    assert mode(tmp_path) == 0o1777


def test_rotated_logs_are_private(tmp_path: Path) -> None:
    make_home(tmp_path)
    make_log_folder(tmp_path / "logs")
    handler = LogFile(tmp_path / "logs" / "agent.jsonl", 100, 2)
    for _ in range(9):
        handler.emit(logging.LogRecord("n", logging.INFO, "", 0, "x" * 60, None, None))
    handler.close()
    assert len(list((tmp_path / "logs").iterdir())) == 3
    assert open_to_others(tmp_path) == []
