"""The domain and the sites of an enabler, by its identity."""

from datetime import timedelta
from pathlib import Path

import pytest

from analytics_enabler.domains.domain_sites import DomainSites
from analytics_enabler.settings import EnablerSettings
from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now


def identity(fog_keys: FogKeys, name: str, *reach: str) -> Path:
    return fog_keys.issue(name, "enabler", "edge", utc_now() + timedelta(days=1), reach)


def test_enabler_starts_only_with_a_domain_of_its_identity(fog_keys: FogKeys) -> None:
    file = identity(fog_keys, "enabler-north", "south")
    with pytest.raises(ValueError, match="the domain all does not belong to the identity"):
        EnablerSettings(identity_file=file)
    with pytest.raises(ValueError, match="does not reach the site cloud"):
        EnablerSettings(identity_file=file, domain="north", domain_sites="south,cloud")
    settings = EnablerSettings(identity_file=file, domain="north", domain_labels="region=n")
    labels = {"region": "n"}
    assert settings.selector.selects("south", labels)
    assert not settings.selector.selects("cloud", labels)


def test_enabler_of_a_dotted_site_has_no_domain_of_its_first_part(fog_keys: FogKeys) -> None:
    end = utc_now() + timedelta(days=1)
    file = fog_keys.issue("enabler-north.b", "enabler", "north.b", end)
    with pytest.raises(ValueError, match="the domain north does not belong to the identity"):
        EnablerSettings(identity_file=file, domain="north")


def test_new_identity_changes_the_sites_of_the_domain_without_a_restart(fog_keys: FogKeys) -> None:
    file = identity(fog_keys, "enabler-north", "south")
    sites = DomainSites(EnablerSettings(identity_file=file, domain="north"))

    def selected() -> set[str]:
        return {name for name in ("edge", "south", "east") if sites.selector().selects(name, {})}

    assert selected() == {"edge", "south"}
    identity(fog_keys, "enabler-north", "east")
    assert selected() == {"edge", "east"}
    assert sites.warnings() == []
    # A file that is invalid for a moment changes nothing.
    content = file.read_bytes()
    file.write_bytes(b"half")
    assert selected() == {"edge", "east"}
    file.write_bytes(content)
    identity(fog_keys, "enabler-west")
    file.write_bytes((fog_keys.folder / "enabler-west.identity").read_bytes())
    assert selected() == {"edge"}
    [text] = sites.warnings()
    assert text.startswith("the domain north does not belong to the identity enabler-west: other")


def test_enabler_that_reaches_all_sites_has_any_domain(fog_keys: FogKeys) -> None:
    settings = EnablerSettings(identity_file=identity(fog_keys, "core", "*"), domain="west")
    assert settings.selector.selects("anywhere", {})
