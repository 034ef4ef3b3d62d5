"""The contents of the image, without building it."""

import doctest
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from deploy import image
from mistbow.errors import InvalidRequestError

LOCK = (image.ROOT / "requirements.lock").read_text()


@pytest.mark.parametrize("python", ["3.11.2", "3.12.7"])
def test_image_installs_hashed_runtime_packages_only(python: str) -> None:
    lines = list(image.locked(LOCK, image.needed(python), python))
    names = [line.split("==")[0] for line in lines if re.match(r"\w", line)]
    assert len(set(names)) == len(names)
    assert {"pyspark", "pyarrow", "fastapi", "docker", "uvloop"} <= set(names)
    assert not {"pytest", "mypy", "ruff", "colorama"} & set(names)
    followers = [after for line, after in pairwise(lines) if "==" in line]
    assert all(after.strip().startswith("--hash=sha256:") for after in followers)


def test_locked_selects_package_of_python_version_of_base() -> None:
    text = (
        'numpy==2.4 ; python_full_version < "3.12" \\\n    --hash=sha256:aa\n    # via pandas\n'
        'numpy==2.5 ; python_full_version >= "3.12" \\\n    --hash=sha256:bb\n'
        "pytest==8 \\\n    --hash=sha256:cc\n"
    )
    wanted = frozenset({"numpy"})
    assert list(image.locked(text, wanted, "3.11.2")) == ["numpy==2.4 \\", "    --hash=sha256:aa"]
    assert list(image.locked(text, wanted, "3.12.7")) == ["numpy==2.5 \\", "    --hash=sha256:bb"]


def test_image_of_a_role_has_the_role_before_the_tag() -> None:
    assert doctest.testmod(image).failed == 0
    assert image.name_of_role("host:5000/a/b", "enabler") == "host:5000/a/b-enabler"
    with pytest.raises(InvalidRequestError, match="digest"):
        image.name_of_role("mistbow@sha256:00", "worker")


def test_image_is_built_again_on_its_former_base_unless_another_one_is_requested() -> None:
    former = {image.SOURCES: "of-yesterday", image.BASE_LABEL: "mistbow-base"}
    # An image of a version without this label, or no image.
    unknown: dict[str, str] = {}
    assert image.base_of_build(None, [unknown, former]) == "mistbow-base"
    assert image.base_of_build("other-base", [former]) == "other-base"
    # The operator also changes the base to the usual one.
    assert image.base_of_build(image.BASE, [former]) == image.BASE
    assert image.base_of_build(None, [unknown]) == image.BASE


def test_dockerignore_admits_only_image_folder() -> None:
    rules = (image.ROOT / ".dockerignore").read_text().splitlines()
    assert [rule for rule in rules if not rule.startswith("#")] == ["*", "!.mistbow/image"]


def test_digest_changes_with_each_file_of_the_image(tmp_path: Path) -> None:
    for file in ("Dockerfile", "requirements.lock", "deploy/image.py", "deploy/entrypoint.py",
                 "deploy/health.py", "mistbow/clock.py", "console/static/main.css"):  # fmt: skip
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    shutil.copy(image.ROOT / "pyproject.toml", tmp_path)
    before = image.digest_of_sources(tmp_path)
    assert image.digest_of_sources(tmp_path) == before
    # Nothing of these is in the image.
    for other in ("README.md", "tests/test_a.py", "mistbow/__pycache__/clock.pyc"):
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("other")
    assert image.digest_of_sources(tmp_path) == before
    digests = {before}
    for file in ("Dockerfile", "mistbow/clock.py", "console/static/main.css", "mistbow/new.py"):
        (tmp_path / file).write_text("changed")
        digests.add(image.digest_of_sources(tmp_path))
    (tmp_path / "mistbow/new.py").rename(tmp_path / "mistbow/newer.py")
    digests.add(image.digest_of_sources(tmp_path))
    assert len(digests) == 6
