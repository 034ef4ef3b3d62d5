"""The software bill of materials of the image: it contains what the image contains."""

from deploy import sbom
from tests.support.bill_schema import schema_errors
from tests.support.emulated_fogs import IMAGE, NEED_IMAGE

pytestmark = NEED_IMAGE


def test_bill_contains_what_the_image_contains(containers: None) -> None:
    found = sbom.inventory(IMAGE)
    names = {name.lower() for name, _, _ in found.python}
    assert {"mistbow", "pyspark", "httpx"} <= names
    assert not {"pytest", "cyclonedx-python-lib"} & names
    jars = {path.rpartition("/")[2].partition("-2.")[0] for path, _ in found.jars}
    assert "ignite-core" in jars
    assert "libc6" in {name for name, _, _ in found.debian}
    assert schema_errors(sbom.bill(IMAGE, found)) == []
