"""Former versions of Mistbow, from the history of this repository."""

import os
import subprocess
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORMER_COMMIT = "41727eafc782254802252597be1d67d9cafde4b7"
"""The last commit of 23 November 2026: the version before draining, backup and the console."""

COMMIT_WITH_IDENTITIES = "a96c1ff1b55dd64ea5a9e85dd495a0c44d2ee71f"
"""The last commit of 26 November 2026: the first version whose services have identities."""


def unpack_former_version(folder: Path, commit: str = FORMER_COMMIT) -> None:
    """Write the packages of a former version to ``folder``, with their entry points.

    Skips the test if the history of this clone does not contain the former version; in CI, fails
    the test.
    """
    git = ["git", "-C", str(ROOT), "archive", commit]
    archive = subprocess.run(git, check=False, capture_output=True)
    if archive.returncode != 0:
        lack = f"this clone lacks the commit {commit}: {archive.stderr.decode()}"
        if "MISTBOW_NEEDS_DOCKER" in os.environ:
            pytest.fail(lack)
        pytest.skip(lack)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    _declare_entry_points(folder)


def command_of_former_version(folder: Path) -> tuple[str, ...]:
    """Return the prefix of a command that runs with the packages in ``folder``."""
    return ("env", f"--chdir={folder}", f"PYTHONPATH={folder}")


def _declare_entry_points(folder: Path) -> None:
    # The metadata of the first `mistbow` on the import path counts, so it hides the installed one.
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    metadata = folder / f"mistbow-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: mistbow\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join([*lines, ""]))
