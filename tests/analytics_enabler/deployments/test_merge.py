"""Deployments that both sides of a split have changed: all changes are in the merged version."""

import msgspec

from analytics_enabler.deployments.merge import merge, moved_on
from analytics_enabler.deployments.model import Deployment, DeploymentDeleted
from analytics_enabler.deployments.move import Move
from analytics_enabler.deployments.versions import version_of
from tests.analytics_enabler.support import definitions, deployment, without_digest

TEXT = "a = COMPUTE {}(x) EVERY 1 s; b = COMPUTE AVG(y) EVERY 1 s"
COMMON = deployment(TEXT.format("AVG"), since=1_000)


def amended(former: Deployment, text: str, at: int) -> Deployment:
    changed = former.defined_by(definitions(text), since=at)
    return msgspec.structs.replace(changed, queries=text, updated_at=at, amended_at=at)


def spans(merged: Deployment, name: str = "a") -> list[tuple[str, int, int | None]]:
    """Return (uid, since, until) of the generations of an insight, by their beginnings."""
    found = sorted((g for g in merged.generations if g.name == name), key=lambda g: g.since)
    return [(without_digest(each.uid), each.since, each.until) for each in found]


def test_merge_with_an_older_version_changes_nothing() -> None:
    own = amended(COMMON, TEXT.format("MAX"), 5_000)
    assert merge(own, COMMON, 0) is own
    assert merge(own, own, 0) is own
    assert merge(COMMON, own, 0) == own


def test_merge_retains_the_results_of_the_earlier_of_two_amendments() -> None:
    earlier = amended(COMMON, TEXT.format("MAX"), 5_000)
    later = amended(COMMON, TEXT.format("MIN"), 8_000)
    for merged in (merge(earlier, later, 0), merge(later, earlier, 0)):
        assert merged.queries == later.queries
        assert merged.updated_at == 8_000
        assert spans(merged) == [
            ("d-1/a/1", 1_000, 5_000),
            ("d-1/a/2", 5_000, 8_000),
            ("d-1/a/2", 8_000, None),
        ]
        # Workers of both sides have stored rows under these uids.
        (maximum,) = [each for each in merged.ended if each.since == 5_000]
        assert maximum.uid == earlier.live[0].uid != merged.live[0].uid == later.live[0].uid
        assert maximum.definition == earlier.live[0].definition
        assert spans(merged, "b") == [("d-1/b/1", 1_000, None)]
        # The merged version has the changes of both.
        assert merge(merged, earlier, 0) is merged
        assert merge(merged, later, 0) is merged


def test_merge_of_versions_of_earlier_enablers_gives_one_of_two_equal_uids_another_number() -> None:
    def plain(changed: Deployment) -> Deployment:
        stored = [msgspec.structs.replace(g, uid=f"d-1/{g.name}/2") for g in changed.generations]
        return msgspec.structs.replace(changed, generations=tuple(stored[-2:]))

    earlier = plain(amended(COMMON, TEXT.format("MAX"), 5_000))
    later = plain(amended(COMMON, TEXT.format("MIN"), 8_000))
    merged = merge(earlier, later, 0)
    assert [(g.number, g.since, g.until) for g in merged.generations if g.name == "a"] == [
        (3, 5_000, 8_000),
        (2, 8_000, None),
    ]
    assert merge(merged, earlier, 0) is merged


def test_merge_has_the_text_the_version_and_the_author_of_the_later_amendment() -> None:
    one = amended(COMMON, TEXT.format("MAX"), 5_000)
    earlier = msgspec.structs.replace(one, amended_by="token anna")
    other = amended(COMMON, TEXT.format("MIN"), 8_000)
    later = msgspec.structs.replace(other, amended_by="token ben")
    for merged in (merge(earlier, later, 0), merge(later, earlier, 0)):
        assert (merged.amended_by, merged.amended_at) == ("token ben", 8_000)
        assert version_of(merged) == version_of(later)


def test_merge_has_the_insight_that_only_the_earlier_amendment_added_until_the_later() -> None:
    earlier = amended(COMMON, TEXT.format("AVG") + "; c = COMPUTE SUM(x) EVERY 1 s", 5_000)
    later = amended(COMMON, TEXT.format("MIN"), 8_000)
    merged = merge(later, earlier, 0)
    assert spans(merged, "c") == [("d-1/c/1", 5_000, 8_000)]
    assert [without_digest(each.uid) for each in merged.live] == ["d-1/a/2", "d-1/b/1"]


def test_merge_does_not_compute_an_insight_twice_that_the_later_amendment_left_alone() -> None:
    earlier = amended(COMMON, TEXT.format("MAX"), 5_000)
    later = amended(COMMON, TEXT.format("AVG").replace("(y)", "(z)"), 8_000)
    merged = merge(earlier, later, 0)
    assert spans(merged) == [("d-1/a/1", 1_000, None)]
    assert spans(merged, "b") == [("d-1/b/1", 1_000, 8_000), ("d-1/b/2", 8_000, None)]


def test_merge_has_the_pause_of_one_side_and_the_amendment_of_the_other() -> None:
    text = TEXT.format("MAX")
    for paused_at, amended_at in ((5_000, 8_000), (8_000, 5_000)):
        paused = COMMON.paused(paused_at, lambda _: 4_000)
        other = amended(COMMON, text, amended_at)
        for merged in (merge(paused, other, 9_000), merge(other, paused, 9_000)):
            assert merged.queries == text
            assert merged.paused_at == paused_at
            assert all(each.paused for each in merged.live)
            assert merge(merged, paused, 9_000) is merged


def test_merge_has_the_resumption_of_one_side_and_the_amendment_of_the_other() -> None:
    paused = COMMON.paused(2_000, lambda _: 2_000)
    resumed = paused.resumed(5_000, 5_000)
    other = amended(paused, TEXT.format("MAX"), 8_000)
    merged = merge(other, resumed, 9_000)
    assert merged.paused_at is None
    assert merged.queries == other.queries
    assert all(each.until is None for each in merged.live)


def moving(former: Deployment, at: int, *, is_ended: bool = False) -> Deployment:
    move = Move(domain="larger", reason="no worker", at=at, changed_at=at, is_ended=is_ended)
    return msgspec.structs.replace(former, move=move)


def test_merge_has_the_move_that_changed_last() -> None:
    begun, ended = moving(COMMON, 5_000), moving(COMMON, 8_000, is_ended=True)
    later = amended(COMMON, TEXT.format("MAX"), 9_000)
    assert merge(begun, COMMON, 0) is begun
    for merged in (merge(begun, later, 0), merge(later, begun, 0)):
        assert (merged.move, merged.queries) == (begun.move, later.queries)
    for merged in (merge(begun, ended, 0), merge(ended, begun, 0)):
        assert merged.move == ended.move
        assert merged.pending_move is None


def test_larger_domain_that_has_adopted_a_deployment_does_not_move_it() -> None:
    begun = moving(COMMON, 5_000)
    adopted = begun.in_domain("larger")
    assert (adopted.domain, adopted.move) == ("larger", None)
    assert merge(adopted, begun, 0) is adopted


def test_deployment_follows_its_move_if_its_deletion_names_the_domain() -> None:
    assert moved_on(COMMON, DeploymentDeleted(5_000)) is COMMON
    followed = moved_on(COMMON, DeploymentDeleted(5_000, moved_to="larger"))
    assert followed.pending_move is not None
    assert followed.pending_move.domain == "larger"
    # The other side of a split learns of the move by it.
    assert merge(COMMON, followed, 0) == followed


def test_deployment_that_was_deleted_during_its_move_follows_the_move_if_it_is_back() -> None:
    back = moved_on(COMMON, DeploymentDeleted(5_000, also_in="larger"))
    assert back.pending_move is not None
    assert back.pending_move.domain == "larger"
