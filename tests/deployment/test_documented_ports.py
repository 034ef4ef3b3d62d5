"""The ports in the page about the installation."""

import re

from deploy import image
from suite.settings import RunSettings

_ROW = re.compile(r"^\| .+? \| (?P<ports>\d.+?) \| (?P<settings>`MISTBOW_.+?`) \|", re.MULTILINE)


def test_documented_ports_are_the_defaults_of_their_settings() -> None:
    page = (image.ROOT / "docs" / "install.md").read_text()
    found: dict[str, int] = {}
    for row in _ROW.finditer(page.partition("### Ports")[2]):
        names = re.findall(r"MISTBOW_([A-Z_]+_PORT)", row["settings"])
        ports = re.findall(r"\d+", row["ports"])
        found |= {name.lower(): int(port) for name, port in zip(names, ports, strict=True)}
    assert found == RunSettings(home=image.ROOT).ports
