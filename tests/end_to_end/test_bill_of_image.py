"""The software bills of materials of the images: each names the contents of its image."""

import json

import pytest

from deploy import sbom
from deploy.image import name_of_role
from tests.support.bill_schema import schema_errors
from tests.support.emulated_fogs import IMAGE, NEED_IMAGE, NEED_ROLE_IMAGES, ROOT

pytestmark = NEED_IMAGE

BUNDLED = {
    package["name"]
    for file in json.loads((ROOT / "console/static/vendor/manifest.json").read_text())["files"]
    for package in file["packages"]
}
COMMON = {"mistbow", "httpx", "libc6", "python", *BUNDLED}
IGNITE, SPARK = {"pyignite", "ignite-core"}, {"pyspark", "spark-core_2.13"}


def names_in_bill(image: str) -> set[str]:
    """Return the names of the parts in the bill of an image, which must satisfy the schema."""
    text = sbom.bill(image, sbom.inventory(image))
    assert schema_errors(text) == []
    return {part["name"].lower() for part in json.loads(text)["components"]}


def test_bill_names_what_the_image_contains(containers: None) -> None:
    found = names_in_bill(IMAGE)
    assert found >= COMMON | IGNITE | SPARK
    assert not found & {"pytest", "cyclonedx-python-lib"}


@NEED_ROLE_IMAGES
@pytest.mark.parametrize(
    ("role", "engines"), [("storage", IGNITE), ("worker", SPARK), ("enabler", set())]
)
def test_bill_of_a_role_names_only_the_engines_of_the_role(
    containers: None, role: str, engines: set[str]
) -> None:
    found = names_in_bill(name_of_role(IMAGE, role))
    assert found >= COMMON
    assert found & (IGNITE | SPARK) == engines
