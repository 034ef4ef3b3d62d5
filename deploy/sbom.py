"""Software bills of materials (CycloneDX) of the images that were built here: ``make sbom``.

A bill lists what is in the image: the packages of Debian, the Python packages with their licenses,
and the jars of Ignite and Spark with their checksums.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from rich.console import Console

from deploy.built_images import BuiltImages
from mistbow.errors import NotFoundError

_JAR = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")

# Runs in the image, which has no tool for this but Python.
_INVENTORY = """
import hashlib, json, subprocess, sys
from importlib.metadata import distributions
from pathlib import Path

python = [[d.metadata["Name"], d.version, d.metadata.get("License-Expression")
           or d.metadata.get("License") or ""] for d in distributions()]
form = "${Package}\\t${Version}\\t${Architecture}\\n"
debian = subprocess.run(["dpkg-query", "--show", "--showformat", form], capture_output=True,
                        text=True, check=True).stdout
jars = [[str(f), hashlib.sha256(f.read_bytes()).hexdigest()]
        for f in sorted(Path("/opt/mistbow").rglob("*.jar"))]
json.dump({"python": python, "debian": [l.split("\\t") for l in debian.splitlines()],
           "jars": jars}, sys.stdout)
"""


class Inventory(msgspec.Struct, frozen=True):
    """What an image contains.

    ``python``: (name, version, license) of each package; the license may be empty. ``debian``:
    (name, version, architecture). ``jars``: (path, SHA-256).
    """

    python: list[tuple[str, str, str]]
    debian: list[tuple[str, str, str]]
    jars: list[tuple[str, str]]


def write_bills(built: BuiltImages, folder: Path, console: Console) -> None:
    """Write the bill of each image that was built here: NAME.cdx.json.

    Raises ``NotFoundError`` if no image was built here.
    """
    names = built.names()
    if not names:
        raise NotFoundError("no image was built here", hint="Build one: make images")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        found = inventory(name)
        file = folder / f"{re.sub('[^A-Za-z0-9.-]', '_', name)}.cdx.json"
        file.write_text(bill(name, found))
        counts = f"{len(found.python)} Python, {len(found.debian)} Debian, {len(found.jars)} jars"
        console.print(f"{file}: {counts}", markup=False, highlight=False, soft_wrap=True)


def inventory(image: str) -> Inventory:
    """Return what an image contains, which is read in a container without a network."""
    command = ("docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image)
    done = subprocess.run((*command, "-c", _INVENTORY), check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Inventory)


def bill(image: str, found: Inventory) -> str:
    """Return the bill of an image as JSON of CycloneDX 1.6."""
    whole = Component(name=image, type=ComponentType.CONTAINER, bom_ref=image)
    parts = list(_components(found))
    bom = Bom(components=parts)
    bom.metadata.component = whole
    bom.register_dependency(whole, parts)
    return str(JsonV1Dot6(bom).output_as_string(indent=1))


def _components(found: Inventory) -> Iterator[Component]:
    licenses = LicenseFactory()
    for name, version, terms in sorted(set(found.python)):
        purl = PackageURL("pypi", name=name.lower().replace("_", "-"), version=version)
        # Some packages have the whole text in this field.
        named = [licenses.make_from_string(terms)] if 0 < len(terms) < 100 else []
        yield Component(name=name, version=version, purl=purl, bom_ref=str(purl), licenses=named)
    for name, version, architecture in found.debian:
        purl = PackageURL("deb", "debian", name, version, {"arch": architecture})
        yield Component(name=name, version=version, purl=purl, bom_ref=str(purl))
    for path, digest in found.jars:
        jar, release = _jar(Path(path).name)
        yield Component(
            name=jar,
            version=release,
            bom_ref=path,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            properties=[Property(name="mistbow:path", value=path)],
        )


def _jar(file: str) -> tuple[str, str | None]:
    """Return the name and the version of a jar by the name of its file.

    >>> _jar("ignite-core-2.17.0.jar"), _jar("spark-core_2.13-4.3.0.jar"), _jar("tools.jar")
    (('ignite-core', '2.17.0'), ('spark-core_2.13', '4.3.0'), ('tools', None))
    """
    if found := _JAR.fullmatch(file):
        return found[1], found[2]
    return file.removesuffix(".jar"), None
