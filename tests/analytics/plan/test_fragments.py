"""The fingerprint of a fragment, which identifies its version."""

import msgspec
import pytest

from analytics.plan import fragments
from analytics.plan.fragments import Partial, StreamLocation, fragment_from_json
from analytics.plan.nodes import fingerprint

PARTIAL = Partial(
    id="f",
    source=StreamLocation("s", "raw"),
    target=StreamLocation("s", "panes"),
    panes=(),
    grain_ms=1000,
    lookback_ms=1000,
    begin=7,
)


def test_fingerprint_is_computed_once_and_belongs_to_one_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[object] = []

    def recorded(value: object) -> str:
        computed.append(value)
        return fingerprint(value)

    monkeypatch.setattr(fragments, "fingerprint", recorded)
    fragment = msgspec.structs.replace(PARTIAL)
    versions = {fragment.fingerprint for _ in range(3)}
    assert len(computed) == len(versions) == 1
    assert msgspec.structs.replace(fragment, begin=8).fingerprint in versions
    assert msgspec.structs.replace(fragment, grain_ms=500).fingerprint not in versions
    assert len(computed) == 3
    # It is no part of the fragment.
    assert fragment == PARTIAL
    assert fragment_from_json(msgspec.json.encode(fragment)) == PARTIAL
