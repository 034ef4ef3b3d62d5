"""Software bills of materials (CycloneDX) of the images that were built here: ``make sbom``.

A bill lists what is in the image: the packages of Debian, the Python interpreter, the packages of
Python and the console's packages of JavaScript with their licenses, and the jars of Ignite and of
Spark with their checksums.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
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

# Runs in the image, which has no tool for this but Python. The interpreter of the base lists the
# packages of the base, such as its pip: the venv does not contain them.
_INVENTORY = """
import hashlib, json, platform, subprocess, sys
from importlib.util import find_spec
from pathlib import Path

list_packages = '''
import json
from importlib.metadata import distributions
print(json.dumps([[d.metadata["Name"], d.version, d.metadata.get("License-Expression")
                   or d.metadata.get("License") or ""] for d in distributions()]))
'''
def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

interpreters = sys.executable, str(Path(sys.executable).resolve())
python = [each for one in interpreters for each in json.loads(output(one, "-c", list_packages))]
form = "${Package}\\t${Version}\\t${Architecture}\\n"
debian = output("dpkg-query", "--show", "--showformat", form)
jars = [[str(f), hashlib.sha256(f.read_bytes()).hexdigest()]
        for f in sorted(Path("/opt/mistbow").rglob("*.jar"))]
bundles = Path(find_spec("console").submodule_search_locations[0]) / "static/vendor/manifest.json"
javascript = [[each["name"], each["version"], each["license"]]
              for file in json.loads(bundles.read_text())["files"] for each in file["packages"]]
json.dump({"interpreter": platform.python_version(), "python": python,
           "debian": [l.split("\\t") for l in debian.splitlines()], "jars": jars,
           "javascript": javascript}, sys.stdout)
"""


class Inventory(msgspec.Struct, frozen=True):
    """What an image contains.

    ``interpreter``: the version of Python. ``python``, ``javascript``: (name, version, license) of
    each package; the license may be empty. ``debian``: (name, version, architecture). ``jars``:
    (path, SHA-256).
    """

    interpreter: str
    python: list[tuple[str, str, str]]
    debian: list[tuple[str, str, str]]
    jars: list[tuple[str, str]]
    javascript: list[tuple[str, str, str]]


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
        counts = (
            f"{len(found.python)} Python, {len(found.javascript)} JavaScript, "
            f"{len(found.debian)} Debian, {len(found.jars)} jars"
        )
        console.print(f"{file}: {counts}", markup=False, highlight=False, soft_wrap=True)


def inventory(image: str) -> Inventory:
    """Return the contents of an image, which a container without a network reads."""
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
    yield _interpreter(found.interpreter)
    yield from _packages(
        (PackageURL("pypi", name=name.lower().replace("_", "-"), version=version), name, terms)
        for name, version, terms in found.python
    )
    yield from _packages(
        (_npm_url(name, version), name, terms) for name, version, terms in found.javascript
    )
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


def _interpreter(version: str) -> Component:
    """Return CPython, which is a package of Debian only on some bases."""
    purl = PackageURL("generic", name="python", version=version)
    cpe = f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*"
    return Component(name="python", version=version, purl=purl, bom_ref=str(purl), cpe=cpe)


def _packages(found: Iterable[tuple[PackageURL, str, str]]) -> Iterator[Component]:
    """Yield a component for each package: (URL, name, license). A package may be listed twice."""
    licenses = LicenseFactory()
    by_url = {str(each[0]): each for each in found}
    for _, (purl, name, terms) in sorted(by_url.items()):
        # Some packages have the whole text in this field.
        named = [licenses.make_from_string(terms)] if 0 < len(terms) < 100 else []
        yield Component(
            name=name, version=purl.version, purl=purl, bom_ref=str(purl), licenses=named
        )


def _npm_url(name: str, version: str) -> PackageURL:
    """Return the URL of a JavaScript package.

    >>> str(_npm_url("@codemirror/state", "6.7.6")), str(_npm_url("uplot", "1.6.32"))
    ('pkg:npm/%40codemirror/state@6.7.6', 'pkg:npm/uplot@1.6.32')
    """
    scope, _, rest = name.rpartition("/")
    return PackageURL("npm", scope or None, rest, version)


def _jar(file: str) -> tuple[str, str | None]:
    """Return the name and the version of a jar by the name of its file.

    >>> _jar("ignite-core-2.17.0.jar"), _jar("spark-core_2.13-4.3.0.jar"), _jar("tools.jar")
    (('ignite-core', '2.17.0'), ('spark-core_2.13', '4.3.0'), ('tools', None))
    """
    if found := _JAR.fullmatch(file):
        return found[1], found[2]
    return file.removesuffix(".jar"), None
