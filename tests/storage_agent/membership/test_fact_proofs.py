"""What credentials prove about the facts of a site that may have been stolen."""

import doctest
from datetime import timedelta
from typing import Any

import pytest

from analytics_enabler.scheduling.driver.snapshot import available_workers
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.clock import utc_now
from mistbow.domains import Selector
from mistbow.fabric import Enabler, Fabric, Site, Worker
from storage_agent.membership import fact_proofs, facts
from storage_agent.membership.fact_proofs import FactProofs, to_ms
from storage_agent.membership.facts import Facts

END = utc_now() + timedelta(days=1)


@pytest.fixture
def proofs(fog_keys: FogKeys) -> FactProofs:
    return FactProofs(IdentityFile(fog_keys.issue("agent-cloud", "agent", "cloud", END, ["*"])))


def text(fog_keys: FogKeys, kind: str, site: str, *reach: str, name: str = "") -> str:
    path = fog_keys.issue(name or f"{kind}-{site}", kind, site, END, reach)
    return IdentityFile(path).current().text


def worker(name: str, **more: Any) -> Worker:
    return Worker(
        name=name, url="http://w:8100", cores=1, memory_mb=9, cores_free=1, memory_free_mb=9, **more
    )


def published(**values: Any) -> Facts:
    """Return facts: the key with ``__`` in place of ``/`` -> the value."""
    found = Facts()
    for key, value in values.items():
        found[key.replace("__", "/")] = facts.encode_fact(value)
    return found


def site(name: str, *workers: Worker, **more: Any) -> Site:
    return Site(name=name, node=name, url=f"http://{name}:8300", workers=workers, **more)


def test_examples_are_right() -> None:
    assert doctest.testmod(fact_proofs).failed == 0


def test_name_of_a_worker_belongs_to_its_identity(fog_keys: FogKeys, proofs: FactProofs) -> None:
    own, stolen = text(fog_keys, "worker", "cloud", "*"), text(fog_keys, "worker", "a-edge")
    real = proofs.worker("cloud", worker("worker-cloud"), own)
    assert (real.has_proven_name, real.own_site_only) == (True, False)
    assert real.identity_expires == to_ms(END)
    for credential in (stolen, own, "", "no.credential"):
        forged = worker("worker-cloud", has_proven_name=True, own_site_only=False)
        found = proofs.worker("a-edge", forged, credential)
        # The forged fact states that the worker reaches other sites, so that schedulers would use
        # it.
        assert (found.has_proven_name, found.own_site_only) == (False, True)
        fabric = Fabric(site="cloud", sites=(site("a-edge", found), site("cloud", real)))
        assert [each.name for each, _ in available_workers(fabric)] == ["cloud"]


def test_enabler_without_an_identity_of_its_site_is_not_believed(
    fog_keys: FogKeys, proofs: FactProofs
) -> None:
    forged = Enabler(domain="all", url="http://e:8000", generation=10**12)
    core = text(fog_keys, "enabler", "cloud", "*")
    agent = text(fog_keys, "agent", "edge")
    for credential in ("", agent, core):
        assert proofs.enabler("edge", forged, credential) is None
    assert proofs.enabler("cloud", forged, core) is not None


@pytest.mark.parametrize("reach", [(), ("south",)])
def test_enabler_has_the_domain_of_its_name_at_the_sites_that_it_reaches(
    fog_keys: FogKeys, proofs: FactProofs, reach: tuple[str, ...]
) -> None:
    credential = text(fog_keys, "enabler", "edge", *reach, name="enabler-north.1")
    for domain in ("all", "cloud", "north-1"):
        forged = Enabler(domain=domain, url="http://e:8000", generation=10**12)
        assert proofs.enabler("edge", forged, credential) is None
    # It claims all sites, a site that it does not reach, or to be free of the limit.
    labels = {"region": "north"}
    for claimed in (
        Selector(),
        Selector(sites=("edge", "south", "cloud"), labels=labels),
        Selector(labels=labels, within=("cloud",)),
    ):
        one = Enabler(domain="north", url="http://e:8000", sites=claimed)
        found = proofs.enabler("edge", one, credential)
        assert found is not None
        assert found.own_site_only is (not reach)
        names = ("edge", "south", "cloud")
        selected = {name for name in names if found.sites.selects(name, labels)}
        assert selected == {"edge", *reach}


def test_edge_removes_no_other_site(fog_keys: FogKeys, proofs: FactProofs) -> None:
    removed = {"other": 7, "edge": 8}
    for credential in ("", text(fog_keys, "worker", "edge"), text(fog_keys, "agent", "hub", "*")):
        found = proofs.removals("edge", published(forgotten=removed, credential__site=credential))
        assert list(found) == []
    for reach in ((), ("other",)):
        own = published(forgotten=removed, credential__site=text(fog_keys, "agent", "edge", *reach))
        assert list(proofs.removals("edge", own)) == []
    core = published(forgotten=removed, credential__site=text(fog_keys, "agent", "hub", "*"))
    assert dict(proofs.removals("hub", core)) == removed


def test_revoked_credential_proves_nothing(fog_keys: FogKeys, proofs: FactProofs) -> None:
    core = text(fog_keys, "agent", "hub", "*")
    stated = published(forgotten={"other": 7}, credential__site=core)
    assert dict(proofs.removals("hub", stated)) == {"other": 7}
    fog_keys.revoke("agent-hub")
    assert list(proofs.removals("hub", stated)) == []
    assert proofs.expiry("hub", core) is None


def test_facts_are_believed_without_identities_and_during_the_change(fog_keys: FogKeys) -> None:
    path = fog_keys.issue("agent-cloud", "agent", "cloud", END, ["*"])
    stated = published(forgotten={"other": 7}, enabler__all=Enabler(domain="all", url="http://e:1"))
    for proof in (None, "the-token-of-the-fog", IdentityFile(path, "the-token-of-the-fog")):
        proofs = FactProofs(proof)
        assert dict(proofs.removals("edge", stated)) == {"other": 7}
        assert [each.domain for each in proofs.enablers("edge", stated)] == ["all"]
        assert proofs.worker("edge", worker("w"), "").own_site_only is False
    # A service with an identity is limited to it also during the change.
    edge = text(fog_keys, "worker", "edge")
    assert proofs.worker("edge", worker("w"), edge).own_site_only is True
