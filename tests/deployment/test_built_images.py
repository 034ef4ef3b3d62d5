"""The images that `make down IMAGES=1` removes, and the image that `make up` does not build."""

import io
import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.built_images import BuiltImages
from deploy.image import ROOT
from tests.support.emulated_fogs import NEED_DOCKER

docker = pytest.importorskip("docker")

pytestmark = NEED_DOCKER


@pytest.fixture
def engine(containers: None) -> Iterator[Any]:
    with closing(docker.from_env()) as opened:
        yield opened


@pytest.fixture
def names(engine: Any) -> Iterator[list[str]]:
    """Yield names of images; images of these names are removed after the test."""
    found = [f"mistbow-test-{uuid.uuid4().hex[:8]}:{tag}" for tag in ("mine", "other", "gone")]
    yield found
    for name in found:
        with suppress(docker.errors.ImageNotFound):
            engine.images.remove(name)


def make_image(engine: Any, name: str) -> str:
    """Make an image with one file of unique content; return the id of the image."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo(uuid.uuid4().hex)
        archive.addfile(entry)
    repository, tag = name.split(":")
    engine.api.import_image_from_data(data.getvalue(), repository=repository, tag=tag)
    return str(engine.images.get(name).id)


def test_only_images_that_were_built_here_are_removed(
    engine: Any, names: list[str], tmp_path: Path
) -> None:
    built = BuiltImages(tmp_path / "built.json")
    mine, other, gone = names
    built.add(mine, "sha256:of-an-earlier-build")
    built.add(mine, make_image(engine, mine))
    built.add(other, make_image(engine, other))
    built.add(gone, "sha256:0")
    # Another image got the name, for example by a pull.
    make_image(engine, other)
    assert list(built.remove(engine)) == [mine]
    assert not engine.images.list(mine)
    assert engine.images.list(other)
    assert list(built.remove(engine)) == []


def test_up_reports_a_missing_chosen_image_and_builds_none(engine: Any, names: list[str]) -> None:
    chosen = names[0]
    done = subprocess.run(
        (sys.executable, "-m", "deploy", "up", "--base", "mistbow-base"),
        cwd=ROOT,
        env={**os.environ, "MISTBOW_IMAGE": chosen, "COMPOSE_PROJECT_NAME": "mistbow-test-none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"names the image {chosen}, which is not on this machine" in done.stderr
    assert f"docker pull {chosen}" in done.stderr
    assert "make images" in done.stderr
    assert not engine.images.list(chosen)
