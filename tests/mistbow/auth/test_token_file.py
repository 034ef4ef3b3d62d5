"""Tokens of a file: hashes, look-up, revocation, expiry."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import token
from command_line.app import app
from mistbow.auth.callers import FOG, Caller, Scope
from mistbow.auth.keyring import Keyring
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.errors import InvalidRequestError

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def add(
    file: Path, name: str, *scopes: Scope, prefix: str = "", end: datetime | None = None
) -> str:
    before = read_token_file(file) if file.exists() else new_token_file()
    content, token = before.with_token(name, frozenset(scopes), prefix, end)
    write_token_file(file, content)
    return token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_keyring_finds_a_token_by_its_hash(file: Path) -> None:
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


def test_keyring_applies_a_changed_file_at_once(file: Path) -> None:
    token = add(file, "one", "read").encode()
    keyring = Keyring("of-the-fog", file)
    assert keyring.find(token)
    other = add(file, "other", "admin").encode()
    assert keyring.find(token)
    assert keyring.find(other)
    write_token_file(file, read_token_file(file).without_token("one"))
    assert keyring.find(token) is None
    assert keyring.find(other)


@pytest.mark.parametrize("content", [None, "", "{", '{"salt": "00"}', '{"tokens": []}'])
def test_keyring_rejects_all_tokens_of_a_missing_or_invalid_file(
    file: Path, content: str | None
) -> None:
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


def test_keyring_rejects_an_expired_token(file: Path) -> None:
    token = add(file, "brief", "read", end=NOON).encode()
    time = NOON - timedelta(seconds=1)
    keyring = Keyring("of-the-fog", file, clock=lambda: time)
    assert keyring.find(token)
    time = NOON
    assert keyring.find(token) is None


def test_error_of_an_invalid_file_does_not_quote_values(file: Path) -> None:
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


def test_token_command_adds_lists_and_revokes(file: Path) -> None:
    options = ("--scope", "ingest", "--entity-prefix", "bus-", "--expires", "90d")
    signatures = ("--signature", "board", "--signature", "audit")
    token = run("add", "bus", *options, *signatures, "--file", str(file)).strip()
    keyring = Keyring("of-the-fog", file)
    found = keyring.find(token.encode())
    assert found is not None
    assert found.has_signature("audit")
    assert not found.has_signature("staff")
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
def test_token_command_rejects_invalid_arguments(file: Path, arguments: tuple[str, ...]) -> None:
    add(file, "one", "read")
    before = file.read_bytes()
    assert CliRunner().invoke(app, ["token", *arguments, "--file", str(file)]).exit_code != 0
    assert file.read_bytes() == before


def test_simultaneous_changes_of_a_token_file_are_all_stored(file: Path) -> None:
    """Without a lock, a token that was printed could be missing in the file."""
    names = [f"n{number}" for number in range(32)]

    def change(name: str) -> None:
        token.add(name, file, ["read"])
        if name in names[::2]:
            token.revoke(name, file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, names))
    assert sorted(each.name for each in read_token_file(file).tokens) == sorted(names[1::2])


@pytest.mark.parametrize("option", ["--entity-prefix", "--expires"])
def test_empty_restriction_of_a_token_is_refused(option: str, file: Path) -> None:
    """A script with an unset variable sends it; the token would have no such restriction."""
    command = ["token", "add", "bus", "--file", str(file), "--scope", "read", option, ""]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert not file.exists()


def test_broken_file_is_a_warning_until_it_is_repaired(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    content, token = new_token_file().with_token("a", frozenset({"read"}), "", None)
    write_token_file(file, content)
    keyring = Keyring("of-the-fog", file)
    assert keyring.warnings() == []
    file.write_text("{")
    [warning] = keyring.warnings()
    assert warning.startswith("MISTBOW_TOKENS_FILE: no token of the file is accepted")
    assert str(file) in warning
    assert keyring.find(token.encode()) is None
    write_token_file(file, content)
    assert keyring.warnings() == []
    assert keyring.find(token.encode()) is not None
