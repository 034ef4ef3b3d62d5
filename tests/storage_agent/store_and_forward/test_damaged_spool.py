"""A damaged spool: all that is readable is delivered unchanged, and the rest is set aside."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mistbow.errors import UnavailableError
from storage_agent.request_key import RequestKey
from storage_agent.store_and_forward.spool import Spool

# The tests kill agents' spools, and read them again, for seconds.
pytestmark = pytest.mark.integration

_BODIES = 120
_SEED = 5
_MAX_LOST_PER_PAGE = 16


def body(number: int) -> bytes:
    return b'{"monitoring":[],"note":"%d %s"}' % (number, b"x" * (number * 37 % 3000))


ALL = {f"key {number}": body(number) for number in range(_BODIES)}


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def acknowledged_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-acknowledged")


def remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def set_aside(folder: Path) -> list[bytes]:
    """Return the bodies that are set aside in a folder."""
    return [file.read_bytes() for file in folder.glob("spool.db.damaged-*.json")]


async def fill(path: Path) -> Spool:
    spool = Spool(path, 2**24)
    for key, content in ALL.items():
        await spool.append(RequestKey(key), content, 1)
    return spool


async def drained(path: Path) -> dict[str, bytes]:
    """Open a spool, and return all bodies that it delivers; a lost body must be reported."""
    spool = Spool(path, 2**24)
    found: dict[str, bytes] = {}
    order: list[int] = []
    try:
        await spool.open()
        while spool.bodies:
            some = await spool.next(50, 2**20)
            found |= {each.key.text: each.body for each in some}
            order += [each.id for each in some]
            await spool.remove(some)
        assert order == sorted(order)
        # It takes bodies again.
        await spool.append(RequestKey("new"), b"{}", 1)
        assert await spool.status(RequestKey("new")) == "waiting"
        if len(found) < _BODIES:
            assert await spool.damaged()
    finally:
        await spool.close()
    return found


async def test_flipped_byte_of_the_file_costs_at_most_its_page(tmp_path: Path) -> None:
    await (await fill(tmp_path / "whole.db")).close()
    whole = (tmp_path / "whole.db").read_bytes()
    chance = random.Random(_SEED)  # noqa: S311 - any offsets will do
    offsets = [0, 17, 29, 100, 105, *(chance.randrange(len(whole)) for _ in range(30))]
    worst = 0
    for number, offset in enumerate(offsets):
        path = tmp_path / str(number) / "spool.db"
        path.parent.mkdir()
        damaged = bytearray(whole)
        damaged[offset] ^= 0x55
        path.write_bytes(damaged)
        found = await drained(path)
        assert found.items() <= ALL.items(), offset
        assert len(found) >= _BODIES - _MAX_LOST_PER_PAGE, (offset, len(found))
        worst = max(worst, _BODIES - len(found))
    print(f"{len(offsets)} flipped bytes: at most {worst} of {_BODIES} bodies lost by one")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
async def test_truncated_file_delivers_its_remaining_points(tmp_path: Path, part: float) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    found = await drained(path)
    assert found.items() <= ALL.items()
    assert len(found) >= _BODIES * part * 0.5 - _MAX_LOST_PER_PAGE


async def test_flipped_byte_of_the_log_of_a_killed_agent_costs_at_most_its_page(
    tmp_path: Path,
) -> None:
    spool = await fill(tmp_path / "spool.db")
    log = (tmp_path / "spool.db-wal").read_bytes()
    base = (tmp_path / "spool.db").read_bytes()
    acknowledged = acknowledged_of(tmp_path / "spool.db").read_bytes()
    chance = random.Random(_SEED)  # noqa: S311 - any offsets will do
    last = [len(log) - 1 - chance.randrange(8000) for _ in range(5)]
    offsets = [0, 9, 17, 33, 45, *last, *(chance.randrange(len(log)) for _ in range(15))]
    for number, offset in enumerate(offsets):
        path = tmp_path / str(number) / "spool.db"
        path.parent.mkdir()
        path.write_bytes(base)
        damaged = bytearray(log)
        damaged[offset] ^= 0x55
        log_of(path).write_bytes(damaged)
        acknowledged_of(path).write_bytes(acknowledged)
        found = await drained(path)
        assert found.items() <= ALL.items(), offset
        assert len(found) >= _BODIES - _MAX_LOST_PER_PAGE, (offset, len(found))
    await spool.close()


@pytest.mark.parametrize("is_acknowledged", [False, True])
async def test_torn_end_of_the_log_is_damage_only_if_the_body_was_acknowledged(
    tmp_path: Path, is_acknowledged: bool
) -> None:
    spool = await fill(tmp_path / "spool.db")
    before = acknowledged_of(tmp_path / "spool.db").read_bytes()
    await spool.append(RequestKey("last"), b"{}", 1)
    path = tmp_path / "copy" / "spool.db"
    path.parent.mkdir()
    shutil.copyfile(tmp_path / "spool.db", path)
    log = (tmp_path / "spool.db-wal").read_bytes()
    after = acknowledged_of(tmp_path / "spool.db").read_bytes()
    await spool.close()
    log_of(path).write_bytes(log[:-10])
    acknowledged_of(path).write_bytes(after if is_acknowledged else before)
    for opened in range(2):
        again = Spool(path, 2**24)
        with capture_logs() as logs:
            await again.open()
        assert again.bodies == _BODIES
        assert len(await again.damaged()) == is_acknowledged
        # It is reported once.
        assert len(logs) == (is_acknowledged and not opened), logs
        await again.close()


async def test_spool_that_was_removed_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    remove(path)
    again = Spool(path, 2**24)
    await again.append(RequestKey("new"), b"{}", 1)
    assert await again.damaged() == []
    await again.close()


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 12])
async def test_damaged_id_of_the_last_body_proves_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    acknowledged_of(path).write_bytes(content)
    assert await drained(path) == ALL
    again = Spool(path, 2**24)
    assert await again.damaged() == []
    await again.close()


async def test_damage_is_logged_and_names_the_file_and_what_was_recovered(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    whole = bytearray(path.read_bytes())
    whole[:16] = b"no database, no "
    path.write_bytes(whole)
    spool = Spool(path, 2**24)
    with capture_logs() as logs:
        await spool.open()
    [event] = [each for each in logs if each["event"] == "spool_damaged"]
    [damaged] = await spool.damaged()
    assert event["moved_to"] == damaged.name
    assert (event["recovered_bodies"], event["recovered_points"]) == (_BODIES, _BODIES)
    damaged.unlink()
    assert await spool.damaged() == []
    await spool.close()


async def test_body_that_does_not_match_its_checksum_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    with sqlite3.connect(path) as file:
        file.execute("update bodies set body = ? where key = 'key 7'", (b"changed",))
    file.close()
    found = await drained(path)
    assert found == {key: content for key, content in ALL.items() if key != "key 7"}
    assert set_aside(tmp_path) == [b"changed"]


async def test_spool_of_the_version_before_without_checksums_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    file = sqlite3.connect(path)
    file.execute("pragma journal_mode=wal")
    file.executescript(
        """
        create table if not exists bodies (
            id integer primary key autoincrement,
            key text not null unique,
            points integer not null,
            body blob not null
        );
        create table if not exists stored (key text primary key, since real not null);
        create index if not exists stored_since on stored (since);
        """
    )
    rows = [(key, 1, content) for key, content in ALL.items()]
    file.executemany("insert into bodies (key, points, body) values (?, ?, ?)", rows)
    file.commit()
    file.close()
    before = path.read_bytes()
    assert await drained(path) == ALL
    remove(path)
    path.write_bytes(b"\0" * 16 + before[16:])
    assert await drained(path) == ALL


async def test_rebuilt_spool_of_an_agent_that_died_meanwhile_is_used(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    await (await fill(path)).close()
    path.rename(tmp_path / "spool.db.rebuilt")
    assert await drained(path) == ALL


async def test_unreadable_spool_is_a_problem_until_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    path.mkdir()
    spool = Spool(path, 2**24)
    with pytest.raises(UnavailableError, match="cannot be read"):
        await spool.open()
    assert spool.problem is not None
    assert str(path) in spool.problem
    assert "owner" in spool.problem
    path.rmdir()
    await spool.open()
    assert spool.problem is None
    await spool.close()
