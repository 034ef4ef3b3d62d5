"""The contents of the image, without building it."""

import re
from itertools import pairwise

import pytest

from deploy import image

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


def test_dockerignore_admits_only_image_folder() -> None:
    rules = (image.ROOT / ".dockerignore").read_text().splitlines()
    assert [rule for rule in rules if not rule.startswith("#")] == ["*", "!.mistbow/image"]
