"""The folder with the fog's key and the issued identities."""

from datetime import timedelta
from pathlib import Path

import pytest

from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now
from mistbow.errors import InvalidRequestError


def test_no_new_key_is_created_beside_identities_whose_key_is_lost(tmp_path: Path) -> None:
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    identity = keys.issue("agent-a", "agent", "a", utc_now() + timedelta(days=1))
    (keys.folder / "fog.key").unlink()
    with pytest.raises(InvalidRequestError, match="not the key that has signed them") as refused:
        keys.create()
    assert (refused.value.hint or "").startswith("Restore fog.key from a backup")
    assert not keys.exists
    assert identity.exists()


@pytest.mark.parametrize(("site", "reach"), [("*", ()), ("a/b", ()), ("", ()), ("a", ("b c",))])
def test_identity_names_only_possible_sites(
    tmp_path: Path, site: str, reach: tuple[str, ...]
) -> None:
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    end = utc_now() + timedelta(days=1)
    with pytest.raises(InvalidRequestError):
        keys.issue("agent-a", "agent", site, end, reach)
    assert keys.issue("agent-a", "agent", "a", end, ("*", "b.1")).exists()
