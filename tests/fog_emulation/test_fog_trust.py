"""The identities and tokens that the containers of a fog receive."""

import doctest
import os
import shlex
import stat
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from command_line.app import app
from deploy.certificates import FogCertificates
from deploy.identities import deliver
from fog_emulation import fog_trust
from fog_emulation.fog_trust import (
    FogTrust,
    NodeTrust,
    archive,
    node_trust,
    trust_folder,
    trust_of,
    unpacked,
)
from fog_emulation.services import load_services
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import Identity, IdentityContent
from mistbow.auth.keyring import Keyring
from mistbow.clock import utc_now
from mistbow.errors import ConflictError
from tests.fog_emulation.cities import FILES
from tests.support.programs import required

CORE = NodeTrust("cloud", ("agent",), ("*",))
EDGE = NodeTrust("edge-1", ("agent", "worker"))
SENDER = NodeTrust("", sends_to=("edge-1", "edge-2"))


@pytest.fixture
def trust(tmp_path: Path) -> FogTrust:
    return FogTrust(tmp_path / "compose")


def credential(content: bytes) -> tuple[str, str, tuple[str, ...]]:
    found = Identity(msgspec.json.decode(content, type=IdentityContent)).credential
    return found.kind, found.site, found.reach


def test_examples_are_right() -> None:
    assert doctest.testmod(fog_trust).failed == 0


def test_each_file_has_its_own_folder_for_trust(tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    target, link = tmp_path / "factory.yml", tmp_path / "linked" / "plant.yml"
    target.touch()
    link.symlink_to(target)
    names = ("docker-compose.yml", "compose.yml", "factory.yml", "factory.yaml", "image.yml")
    files = [tmp_path / folder / name for folder in ("a", "b", "") for name in names]
    assert len({trust_folder(file) for file in files}) == len(files)
    assert trust_folder(link) == trust_folder(target)
    # The folder of the parts of the image, which Docker receives at a build.
    image = tmp_path / ".mistbow" / "image"
    assert not [each for each in map(trust_folder, files) if image in (each, *each.parents)]


def test_container_gets_its_own_identities_only(trust: FogTrust) -> None:
    core, edge = trust.files(CORE), trust.files(EDGE)
    assert credential(core["agent.identity"]) == ("agent", "cloud", ("*",))
    assert edge.keys() == {"agent.identity", "worker.identity", "tokens.json"}
    assert credential(edge["agent.identity"]) == ("agent", "edge-1", ())
    assert credential(edge["worker.identity"]) == ("worker", "edge-1", ())
    assert trust.files(SENDER).keys() == {"edge-1.token", "edge-2.token"}


def test_monitoring_agent_of_the_core_has_an_identity_of_its_own_site(trust: FogTrust) -> None:
    own = {"monitor": ()}
    nodes = [
        NodeTrust("cloud", (kind, "monitor"), ("*",), kind_reach=own)
        for kind in ("worker", "enabler")
    ]
    assert all(node.is_core for node in nodes)
    assert not NodeTrust("cloud", ("monitor",), ("*",)).is_core
    given = [trust.files(node) for node in nodes]
    assert credential(given[0]["monitor.identity"]) == ("monitor", "cloud", ())
    # Two containers share no secret.
    assert given[0]["monitor.identity"] != given[1]["monitor.identity"]
    assert trust.token_file("cloud", "admin").exists()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_two_services_of_a_file_share_an_identity(file: Path) -> None:
    nodes = [node_trust(each.labels, 1) for each in load_services(file).values()]
    names = [node.name_of(kind) for node in nodes if node for kind in node.identities]
    assert len(set(names)) == len(names)


def test_tokens_open_one_site_and_admin_the_core_only(trust: FogTrust, tmp_path: Path) -> None:
    scopes = {}
    given = {site: trust.files(node) for site, node in (("cloud", CORE), ("edge-1", EDGE))}
    trust.files(SENDER)
    for site, files in given.items():
        file = tmp_path / f"{site}.json"
        file.write_bytes(files["tokens.json"])
        keyring = Keyring("", file)
        for other in ("cloud", "edge-1", "edge-2"):
            for role in ("sender", "reader", "admin"):
                if trust.token_file(other, role).exists():
                    caller = keyring.find(trust.token(other, role).encode())
                    scopes[site, other, role] = set(caller.scopes) if caller else set()
    opened = {key: found for key, found in scopes.items() if found}
    assert opened == {
        ("cloud", "cloud", "sender"): {"ingest"},
        ("cloud", "cloud", "reader"): {"read"},
        ("cloud", "cloud", "admin"): {"admin"},
        ("edge-1", "edge-1", "sender"): {"ingest"},
        ("edge-1", "edge-1", "reader"): {"read"},
    }
    assert ("edge-1", "edge-2", "sender") in scopes


def test_files_stay_the_same_until_an_identity_expires_soon(
    trust: FogTrust, tmp_path: Path
) -> None:
    first = trust.files(EDGE)
    assert trust.files(EDGE) == first
    keys = FogKeys(tmp_path / "compose" / "keys")
    keys.issue("agent-edge-1", "agent", "edge-1", utc_now() + timedelta(days=30))
    later = trust.files(EDGE)
    assert {name for name in first if later[name] != first[name]} == {"agent.identity"}
    end = Identity(msgspec.json.decode(later["agent.identity"], type=IdentityContent))
    assert end.credential.expires > utc_now() + timedelta(days=300)
    # Another reach, as after a change of the labels.
    changed = trust.files(NodeTrust("edge-1", ("agent",), ("cloud",)))
    assert credential(changed["agent.identity"]) == ("agent", "edge-1", ("cloud",))


def test_revoked_identity_is_not_issued_again(trust: FogTrust, tmp_path: Path) -> None:
    trust.files(EDGE)
    before = trust.files(CORE)
    keys = FogKeys(tmp_path / "compose" / "keys")
    keys.revoke("agent-edge-1")
    with pytest.raises(ConflictError, match="agent-edge-1 is revoked"):
        trust.files(EDGE)
    assert trust.files(CORE)["agent.identity"] != before["agent.identity"]


@pytest.mark.parametrize("node", [EDGE, CORE], ids=lambda node: node.site)
def test_replacement_is_trusted_after_the_commands_in_the_error(
    trust: FogTrust, tmp_path: Path, node: NodeTrust
) -> None:
    before = trust.files(node)
    keys = FogKeys(tmp_path / "compose" / "keys")
    for kind in node.identities:
        keys.revoke(f"{kind}-{node.site}")
    with pytest.raises(ConflictError) as refused:
        trust.files(node)
    _, _, commands = (refused.value.hint or "").partition(": .venv/bin/mistbow ")
    for command in commands.split(" && .venv/bin/mistbow "):
        issued = CliRunner().invoke(app, shlex.split(command))
        assert issued.exit_code == 0, issued.output
    after = trust.files(node)
    for kind in node.identities:
        name = f"{kind}.identity"
        assert f"{kind}-{node.site}" in refused.value.message
        assert after[name] != before[name]
        assert credential(after[name]) == credential(before[name])


def test_revoked_tokens_are_replaced_and_the_others_stay(trust: FogTrust, tmp_path: Path) -> None:
    roles = ("admin", "reader", "sender")
    senders = NodeTrust("", sends_to=("cloud",))
    file = tmp_path / "tokens.json"
    file.write_bytes(trust.files(CORE)["tokens.json"])
    assert trust.files(senders)["cloud.token"].decode().strip() == trust.token("cloud", "sender")
    before = {role: trust.token("cloud", role) for role in roles}
    # The keyring of a service that does not restart.
    keyring = Keyring("", file)
    assert all(keyring.find(token.encode()) for token in before.values())

    for role in ("admin", "sender"):
        revoke = ["token", "revoke", role, "--file", str(trust.folder / "tokens" / "cloud.json")]
        assert CliRunner().invoke(app, revoke).exit_code == 0
    # A sender may receive its new files before the service whose tokens were revoked.
    sent = trust.files(senders)["cloud.token"].decode().strip()
    file.write_bytes(trust.files(CORE)["tokens.json"])
    after = {role: trust.token("cloud", role) for role in roles}
    assert {role for role in roles if after[role] != before[role]} == {"admin", "sender"}
    assert sent == after["sender"]
    scopes = [caller.scopes for token in after.values() if (caller := keyring.find(token.encode()))]
    assert scopes == [{"admin"}, {"read"}, {"ingest"}]
    assert not keyring.find(before["admin"].encode())
    assert not keyring.find(before["sender"].encode())


def test_folder_of_the_operator_is_private(trust: FogTrust) -> None:
    trust.files(EDGE)
    for path in (trust.folder, *trust.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@required(os.geteuid() == 0, "needs root, to be two users")
def test_what_root_creates_belongs_to_the_owner_of_the_folder_around_it(tmp_path: Path) -> None:
    """`mistbow fog` needs root; `make up` uses the same files without root."""
    os.chown(tmp_path, 10001, 10002)
    image = tmp_path / ".mistbow" / "image"
    # Earlier versions and `make images` have created this folder as root.
    image.mkdir(parents=True)
    trust = trust_of(tmp_path / "docker-compose.yml")
    trust.files(CORE)
    trust.files(SENDER)
    FogCertificates(trust.folder / "ca").files_of("edge", ["localhost"])
    deliver([], trust)
    for path in (trust.folder.parent, trust.folder, *trust.folder.rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (10001, 10002), path
    assert image.stat().st_uid == 0


@required(os.geteuid() == 0, "needs root, to be two users")
def test_root_keeps_its_files_in_another_folder_and_behind_a_link(tmp_path: Path) -> None:
    os.chown(tmp_path, 10001, 10002)
    secrets = FogTrust(tmp_path / "keys")
    secrets.files(CORE)
    other = tmp_path / "other"
    (other / "compose").mkdir(parents=True)
    (other / "compose" / "of_root").touch()
    (tmp_path / ".mistbow").symlink_to(other)
    trust_of(tmp_path / "docker-compose.yml").files(CORE)
    for path in tmp_path.rglob("*"):
        assert path.lstat().st_uid == 0, path
    assert (other / "compose" / "keys" / "fog.key").stat().st_uid == 0


def test_archive_has_private_files_of_the_image_s_user() -> None:
    files = {"agent.identity": b"{}", "tokens.json": b"[]"}
    assert unpacked(archive(files)) == files


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_service_of_a_file_has_its_own_identities(file: Path, tmp_path: Path) -> None:
    for name, service in load_services(file).items():
        named = {
            Path(path.strip())
            for variable, text in service.environment.items()
            for path in str(text).split(",")
            if variable.endswith(("_FILE", "_FILES"))
        }
        needed = node_trust(service.labels, 2)
        assert needed is not None, name
        assert {path.parent for path in named} == {Path(fog_trust.FOLDER)}
        files = FogTrust(tmp_path / file.stem).files(needed)
        assert {path.name for path in named} == files.keys(), name
        assert not service.secrets
        assert not {"MISTBOW_TOKEN", "MISTBOW_TOKEN_FILE"} & service.environment.keys()
