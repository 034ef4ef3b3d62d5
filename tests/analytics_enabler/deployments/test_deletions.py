"""The deletions of deployments that an enabler retains."""

import pytest

from analytics_enabler.deployments import deletions
from analytics_enabler.deployments.deletions import Deletions
from analytics_enabler.deployments.model import DeploymentDeleted


def test_deletion_that_another_domain_lacks_is_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "MAX_DELETED", 2)
    found = Deletions()
    pending = DeploymentDeleted(1, also_in="larger")
    found.add("first", pending)
    for at, name in enumerate(["second", "third"], start=2):
        found.add(name, DeploymentDeleted(at))
    assert found.ids() == ["second", "third"]
    assert found.pending() == {"first": pending}
    assert found.find("first") == pending
    found.add("first", DeploymentDeleted(1))
    assert found.pending() == {}
    assert found.ids() == ["third", "first"]


def test_deployment_that_exists_again_is_not_deleted() -> None:
    found = Deletions()
    found.add("one", DeploymentDeleted(7, also_in="larger"))
    found.remove("one")
    assert (found.ids(), found.pending(), found.find("one").at) == ([], {}, 0)


def test_number_of_pending_deletions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "MAX_DELETED", 2)
    found = Deletions()
    for at, name in enumerate(["first", "second", "third"], start=1):
        found.add(name, DeploymentDeleted(at, also_in="larger"))
    assert list(found.pending()) == ["second", "third"]
