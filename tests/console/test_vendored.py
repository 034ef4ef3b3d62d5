"""The vendored bundles equal the manifest, and have their licences."""

import hashlib
import json
from pathlib import Path

import pytest

from console.pages import static_folder

VENDOR = static_folder() / "vendor"
AXE = Path(__file__).parent / "vendor"
NOT_BUNDLES = {"manifest.json", "LICENSES.txt", "axe.LICENSE"}


@pytest.mark.parametrize("folder", [VENDOR, AXE], ids=["console", "tests"])
def test_files_have_the_checksums_of_the_manifest(folder: Path) -> None:
    files = {
        each["file"]: each for each in json.loads((folder / "manifest.json").read_text())["files"]
    }
    assert files.keys() == {each.name for each in folder.iterdir()} - NOT_BUNDLES
    for name, entry in files.items():
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert digest == entry["sha256"], f"{name}: run console/vendoring/build.sh"
        assert entry["packages"], name


def test_each_package_has_its_version_of_the_lock_and_its_licence() -> None:
    lock = json.loads(
        (Path(__file__).parents[2] / "console/vendoring/package-lock.json").read_text()
    )
    licences = (VENDOR / "LICENSES.txt").read_text()
    for file in json.loads((VENDOR / "manifest.json").read_text())["files"]:
        for package in file["packages"]:
            name, version = package["name"], package["version"]
            assert lock["packages"][f"node_modules/{name}"]["version"] == version
            assert f"{name} {version} ({package['license']})" in licences
            assert package["license"] in {"MIT", "Apache-2.0", "BSD-3-Clause", "ISC"}
