"""Searches processes, files and images for the secrets of a fog, with grep and as root."""

import contextlib
import json
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mistbow.auth.identity import read_identity_file

ANY_SECRET = (
    rb"mistbow_[A-Za-z0-9_-]{43}"
    rb'|"key": "[0-9a-f]{64}"'
    rb"|^-----BEGIN ([A-Z]+ )?PRIVATE KEY-----$"
)
"""What tokens, the private keys of identities, and keys in PEM look like."""

_FOLDERS = ("dev/shm", "etc", "home", "root", "run", "tmp", "var")
"""The folders of a container in which its services and its volumes have files."""


def secrets_in(folder: Path) -> dict[str, str]:
    """Return the secrets of a fog on the operator's machine: file -> its token or private key."""
    found = {path.name: path.read_text().strip() for path in folder.glob("tokens/*.token")}
    for path in folder.glob("keys/*.identity"):
        found[path.name] = read_identity_file(path).key
    for path in (folder / "keys" / "fog.key", *folder.glob("ca/*.key")):
        # The first line of the key.
        found[path.name] = path.read_text().splitlines()[1]
    return found


def present(secrets: Mapping[str, str], text: bytes) -> set[str]:
    """Return the names of the secrets that a text contains."""
    return {name for name, secret in secrets.items() if secret.encode() in text}


def present_in_files(secrets: Mapping[str, str], folders: Collection[Path]) -> set[str]:
    """Return the names of the secrets that are in files of folders; links are not followed."""
    patterns = "\n".join(secrets.values())
    done = subprocess.run(
        ("grep", "-rhoaF", "--devices=skip", "-f", "/dev/stdin", *map(str, folders)),
        input=patterns.encode(),
        capture_output=True,
        check=False,
    )
    found = set(done.stdout.decode().split("\n"))
    return {name for name, secret in secrets.items() if secret in found}


def present_in_processes(secrets: Mapping[str, str], pids: Iterable[int]) -> set[str]:
    """Return the names of the secrets in the arguments and the environments of processes."""
    texts = []
    for pid in pids:
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):  # the process has ended meanwhile
                texts.append(Path(f"/proc/{pid}/{name}").read_bytes())
    return present(secrets, b"\n".join(texts))


def present_beside_files(secrets: Mapping[str, str], container: Any) -> set[str]:
    """Return the names of the secrets in the description, the log and the processes of a container.

    ``container``: as Docker's API returns it.
    """
    pids = [int(row[1]) for row in container.top()["Processes"]]
    texts = json.dumps(container.attrs).encode() + container.logs()
    return present(secrets, texts) | present_in_processes(secrets, pids)


def present_in_container(secrets: Mapping[str, str], container: Any) -> set[str]:
    """Return the names of the secrets in the files of a running container, volumes included."""
    root = Path(f"/proc/{container.attrs['State']['Pid']}/root")
    return present_in_files(secrets, [root / folder for folder in _FOLDERS])


def secrets_of_images(*names: str) -> list[str]:
    """Return the lines of images' layers and configurations that look like secrets."""
    with subprocess.Popen(("docker", "save", *names), stdout=subprocess.PIPE) as saving:
        lines = lines_like_secrets(saving)
    assert saving.returncode == 0
    return lines


def lines_like_secrets(source: "subprocess.Popen[bytes]") -> list[str]:
    """Return what looks like a secret in the output of a process."""
    found = subprocess.run(
        ("grep", "-aoE", ANY_SECRET.decode()),
        stdin=source.stdout,
        capture_output=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    return sorted(set(found.stdout.decode(errors="replace").splitlines()))
