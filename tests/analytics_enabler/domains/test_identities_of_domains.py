"""The domain and the sites of an enabler, by its identity."""

from datetime import timedelta
from pathlib import Path

import pytest

from analytics_enabler.settings import EnablerSettings
from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now


@pytest.fixture
def fog(tmp_path: Path) -> FogKeys:
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    return keys


def identity(fog: FogKeys, name: str, *reach: str) -> Path:
    return fog.issue(name, "enabler", "edge", utc_now() + timedelta(days=1), reach)


def test_enabler_starts_only_with_a_domain_of_its_identity(fog: FogKeys) -> None:
    file = identity(fog, "enabler-north", "south")
    with pytest.raises(ValueError, match="the domain all does not belong to the identity"):
        EnablerSettings(identity_file=file)
    with pytest.raises(ValueError, match="does not reach the site cloud"):
        EnablerSettings(identity_file=file, domain="north", domain_sites="south,cloud")
    settings = EnablerSettings(identity_file=file, domain="north", domain_labels="region=n")
    labels = {"region": "n"}
    assert settings.selector.selects("south", labels)
    assert not settings.selector.selects("cloud", labels)


def test_enabler_that_reaches_all_sites_has_any_domain(fog: FogKeys) -> None:
    settings = EnablerSettings(identity_file=identity(fog, "core", "*"), domain="west")
    assert settings.selector.selects("anywhere", {})
