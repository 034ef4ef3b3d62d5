"""Programs of Debian that some tests need.

Without a program, its tests are skipped except in CI.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


def needs(*names: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if one of the programs is missing.

    In CI the test runs and fails.
    """
    lacking = [name for name in names if program(name) is None]
    return required(not lacking, f"not installed: {', '.join(lacking)}")


def required(is_there: bool, reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if something is missing; in CI the test runs and fails."""
    return pytest.mark.skipif(
        not is_there and "MISTBOW_NEEDS_DOCKER" not in os.environ, reason=reason
    )


def lack(what: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    if "MISTBOW_NEEDS_DOCKER" in os.environ:
        pytest.fail(what)
    pytest.skip(what)


def program(name: str) -> str | None:
    """Return the path of a program in ``PATH`` or in a folder for administrators; None: missing."""
    return shutil.which(
        name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
    )


@contextmanager
def running(argv: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program within the ``with``; yield its process. Its output is written to a file."""
    found = program(argv[0])
    assert found is not None, f"{argv[0]} is not installed"
    with output.open("ab") as file:
        process = subprocess.Popen([found, *argv[1:]], stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
