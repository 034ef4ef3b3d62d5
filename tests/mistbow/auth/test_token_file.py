"""Tokens of a file: kept as hashes, found, revoked without a restart, over when they are over."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mistbow.auth.callers import FOG, Caller, Scope
from mistbow.auth.keyring import Keyring
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.cli.app import app
from mistbow.errors import InvalidRequestError

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def add(
    file: Path, name: str, *scopes: Scope, prefix: str = "", end: datetime | None = None
) -> str:
    before = read_token_file(file) if file.exists() else new_token_file()
    content, token = before.added(name, frozenset(scopes), prefix, end)
    write_token_file(file, content)
    return token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_a_token_is_found_by_its_hash_only(file: Path) -> None:
    token = add(file, "bus", "ingest", prefix="bus-")
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    keyring = Keyring("of-the-fog", file)
    found = keyring.find(token.encode())
    assert found is not None
    assert found == Caller("bus", frozenset({"ingest"}), "bus-")
    assert keyring.find(b"of-the-fog") is FOG
    for wrong in (
        "",
        "of-the-fo",
        token[:-1],
        token + "x",
        "é",
        json.loads(file.read_text())["salt"],
    ):
        assert keyring.find(wrong.encode()) is None


def test_a_change_of_the_file_holds_at_once(file: Path) -> None:
    token = add(file, "one", "read").encode()
    keyring = Keyring("of-the-fog", file)
    assert keyring.find(token)
    other = add(file, "other", "admin").encode()
    assert keyring.find(token)
    assert keyring.find(other)
    write_token_file(file, read_token_file(file).without("one"))
    assert keyring.find(token) is None
    assert keyring.find(other)


@pytest.mark.parametrize("content", [None, "", "{", '{"salt": "00"}', '{"tokens": []}'])
def test_a_file_that_is_gone_or_broken_opens_nothing(file: Path, content: str | None) -> None:
    token = add(file, "one", "read").encode()
    good = file.read_text()
    keyring = Keyring("of-the-fog", file)
    assert keyring.find(token)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    assert keyring.find(token) is None
    assert keyring.find(b"of-the-fog") is FOG
    file.write_text(good)
    assert keyring.find(token)


def test_a_token_ends(file: Path) -> None:
    token = add(file, "brief", "read", end=NOON).encode()
    time = NOON - timedelta(seconds=1)
    keyring = Keyring("of-the-fog", file, clock=lambda: time)
    assert keyring.find(token)
    time = NOON
    assert keyring.find(token) is None


def test_a_token_in_the_wrong_place_is_not_quoted(file: Path) -> None:
    add(file, "one", "read")
    content = json.loads(file.read_text())
    content["tokens"][0]["scopes"] = ["a-secret-that-was-pasted"]
    file.write_text(json.dumps(content))
    with pytest.raises(InvalidRequestError, match="tokens") as raised:
        read_token_file(file)
    assert "a-secret" not in raised.value.message


def run(*arguments: str) -> str:
    ended = CliRunner().invoke(app, ["token", *arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_the_command_makes_lists_and_revokes(file: Path) -> None:
    options = ("--scope", "ingest", "--entity-prefix", "bus-", "--expires", "90d")
    signatures = ("--signature", "board", "--signature", "audit")
    token = run("add", "bus", *options, *signatures, "--file", str(file)).strip()
    keyring = Keyring("of-the-fog", file)
    found = keyring.find(token.encode())
    assert found is not None
    assert found.carries("audit")
    assert not found.carries("staff")
    listed = run("list", "--file", str(file))
    assert "bus-" in listed
    assert "audit, board" in listed
    assert token not in listed
    run("revoke", "bus", "--file", str(file))
    assert keyring.find(token.encode()) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "n", "--scope", "write"),
        ("add", "n"),
        ("add", "n", "--scope", "read", "--signature", "The Board"),
        ("add", "n", "--scope", "read", "--expires", "yesterday"),
        ("add", "n", "--scope", "read", "--expires", "2020-01-01T00:00Z"),
        ("add", "a b", "--scope", "read"),
        ("revoke", "nobody"),
    ],
)
def test_the_command_refuses_what_is_wrong(file: Path, arguments: tuple[str, ...]) -> None:
    add(file, "one", "read")
    before = file.read_bytes()
    assert CliRunner().invoke(app, ["token", *arguments, "--file", str(file)]).exit_code != 0
    assert file.read_bytes() == before
