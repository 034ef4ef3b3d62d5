"""The versions of deployments, and the conditions of requests on them."""

import msgspec
import pytest

from analytics_enabler.deployments.versions import (
    check_version,
    entity_tag,
    expected_versions,
    version_of,
)
from mistbow.errors import InvalidRequestError, PreconditionFailedError
from tests.analytics_enabler.support import deployment

FORMER = deployment("a = COMPUTE AVG(x) EVERY 1 s")
PRESENT = msgspec.structs.replace(
    FORMER, queries="a = COMPUTE MAX(x) EVERY 1 s", amended_at=1_000, amended_by="token anna"
)


def test_version_depends_on_the_text_and_the_name_only() -> None:
    named = msgspec.structs.replace(FORMER, name="host")
    assert len({version_of(each) for each in (FORMER, PRESENT, named)}) == 3
    paused = FORMER.paused(5_000, lambda _: 5_000)
    restored = msgspec.structs.replace(PRESENT, queries=FORMER.queries)
    assert version_of(FORMER) == version_of(paused) == version_of(restored)


def test_present_version_satisfies_a_condition() -> None:
    check_version(PRESENT, None)
    check_version(PRESENT, expected_versions(f'"other", {entity_tag(version_of(PRESENT))}'))


def test_former_version_is_refused_with_the_author_and_the_present_text() -> None:
    with pytest.raises(PreconditionFailedError, match="token anna amended it at 1970-01-01T") as e:
        check_version(PRESENT, [version_of(FORMER)])
    assert e.value.status == 412
    assert e.value.details == {
        **{"version": version_of(PRESENT), "queries": PRESENT.queries, "name": None},
        **{"amended_at": 1_000, "amended_by": "token anna"},
    }


def test_weak_tag_satisfies_no_condition() -> None:
    with pytest.raises(PreconditionFailedError, match="has changed since the version"):
        check_version(FORMER, expected_versions(f"W/{entity_tag(version_of(FORMER))}"))


@pytest.mark.parametrize("header", ["", "abc", '"a" "b"', '"a",', 'W"a"', '"a", *'])
def test_condition_that_is_no_list_of_tags_is_invalid(header: str) -> None:
    with pytest.raises(InvalidRequestError, match="If-Match"):
        expected_versions(header)
