"""Which identity may publish which fact: every kind of fact, every kind of identity, generated.

A fact is a statement of the site that publishes it. What it changes at other sites about anything
but this site is stated here a second time, in the words of docs/security.md.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile, read_identity_file
from mistbow.clock import utc_now
from mistbow.fabric import Enabler, Worker
from storage_agent.membership import facts
from storage_agent.membership.fact_proofs import FactProofs
from storage_agent.membership.facts import FORMS, Facts, encode_fact
from storage_agent.series import SERIES_PREFIX

EDGE, SOUTH, CLOUD = "edge", "south", "cloud"
SITES = (EDGE, SOUTH, CLOUD)
KINDS = ("agent", "worker", "enabler", "monitor")
REACHES: tuple[tuple[str, ...], ...] = ((), (SOUTH,), (SOUTH, CLOUD), ("*",))
STATES = ("valid", "expired", "foreign", "revoked")

ABOUT_THE_OWN_SITE = {
    "site": "the node, the address, the region and the labels of the site",
    "link/": "its direct links; others only schedule by them",
    "instability/": "its own workers",
    "credential/": "proves something only for the right kind at the right site: see the others",
    "copies": "its own streams; the target reads them with its own rights",
    "health": "itself; policies choose targets by it",
    "restrictions": "what may not leave it; others only show them",
    SERIES_PREFIX: "its own series",
}
"""Kinds of facts that change nothing about other sites, from any publisher -> their content."""


@dataclass(frozen=True)
class Given:
    """An identity with which a stolen site shows its facts."""

    kind: str
    site: str
    reach: tuple[str, ...]
    state: str

    @property
    def reached(self) -> set[str]:
        """The sites at which it has rights; it has none unless it is valid."""
        if self.state != "valid":
            return set()
        return set(SITES) if "*" in self.reach else {self.site, *self.reach}

    def is_of(self, kind: str) -> bool:
        """Return whether it proves something for a service of a kind at the edge."""
        return self.state == "valid" and (self.kind, self.site) == (kind, EDGE)


GIVEN = [Given(*each) for each in itertools.product(KINDS, (EDGE, CLOUD), REACHES, STATES)]


@pytest.fixture(scope="module")
def fog(tmp_path_factory: pytest.TempPathFactory) -> FogKeys:
    keys = FogKeys(tmp_path_factory.mktemp("fog") / "keys")
    keys.create()
    return keys


@pytest.fixture(scope="module")
def texts(fog: FogKeys, tmp_path_factory: pytest.TempPathFactory) -> dict[Given, str]:
    """Return the text of the credential of each identity."""
    foreign = FogKeys(tmp_path_factory.mktemp("foreign") / "keys")
    foreign.create()
    found = {}
    for given in GIVEN:
        keys = foreign if given.state == "foreign" else fog
        end = utc_now() + timedelta(days=-1 if given.state == "expired" else 1)
        path = keys.issue(name_of(given), given.kind, given.site, end, given.reach)
        found[given] = read_identity_file(path).credential
    for kind in KINDS:
        fog.revoke(name_of(Given(kind, EDGE, (), "revoked")))
    return found


def name_of(given: Given) -> str:
    # The name of an enabler is its domain. A revocation is of all credentials of a name.
    begin = "enabler-north." if given.kind == "enabler" else f"{given.kind}-"
    return f"{begin}{given.state}"


@pytest.fixture(scope="module")
def proofs(fog: FogKeys, texts: dict[Given, str]) -> FactProofs:
    end = utc_now() + timedelta(days=1)
    return FactProofs(IdentityFile(fog.issue("the-core", "agent", CLOUD, end, ["*"])))


def published(key: str, value: object, credential_key: str, text: str) -> Facts:
    found = Facts()
    found.apply(key, encode_fact(value))
    if text:
        found.apply(facts.credential_key(credential_key), encode_fact(text))
    assert key in found
    return found


def removals(proofs: FactProofs, text: str) -> Iterator[str]:
    stated = published(facts.FORGOTTEN, dict.fromkeys(SITES, 7), facts.SITE, text)
    yield from (site for site, _ in proofs.removals(EDGE, stated))


def workers(proofs: FactProofs, text: str) -> Iterator[str]:
    worker = Worker(
        name="w", url="http://w:1", cores=1, memory_mb=9, cores_free=1, memory_free_mb=9,
        own_site_only=False, has_proven_name=True,
    )  # fmt: skip
    key = facts.worker_key("w")
    for found in proofs.workers(EDGE, published(key, worker, key, text)):
        yield from ("other sites",) * (not found.own_site_only)
        yield from ("the name",) * found.has_proven_name


def enablers(proofs: FactProofs, text: str) -> Iterator[str]:
    for domain in ("all", "north"):
        enabler = Enabler(domain=domain, url="http://e:1", generation=10**12)
        key = facts.enabler_key(domain)
        for found in proofs.enablers(EDGE, published(key, enabler, key, text)):
            yield from (f"{domain} {site}" for site in SITES if found.sites.selects(site, {}))


def replicas(proofs: FactProofs, text: str) -> Iterator[str]:
    stated = published(facts.REPLICAS, [], facts.SITE, text)
    yield from (site for site in SITES if proofs.may_state(EDGE, stated, site))


def may_remove(given: Given) -> set[str]:
    return set(SITES) if given.is_of("agent") and "*" in given.reach else set()


def may_use(given: Given) -> set[str]:
    return {"other sites"} if given.is_of("worker") and given.reach else set()


def may_plan(given: Given) -> set[str]:
    if not given.is_of("enabler"):
        return set()
    domains = ("all", "north") if "*" in given.reach else ("north",)
    return {f"{domain} {site}" for domain in domains for site in given.reached}


def may_replicate(given: Given) -> set[str]:
    return given.reached if given.is_of("agent") else set()


Effects = Callable[[FactProofs, str], Iterator[str]]
ABOUT_OTHERS: dict[str, tuple[Effects, Callable[[Given], set[str]]]] = {
    "forgotten": (removals, may_remove),
    "worker/": (workers, may_use),
    "enabler/": (enablers, may_plan),
    "replicas": (replicas, may_replicate),
}
"""Kinds of facts that change something about other sites -> the changes, the permitted ones."""


def test_each_kind_of_fact_has_a_rule() -> None:
    assert {*FORMS, SERIES_PREFIX} == ABOUT_THE_OWN_SITE.keys() | ABOUT_OTHERS.keys()
    assert not ABOUT_THE_OWN_SITE.keys() & ABOUT_OTHERS.keys()


@pytest.mark.parametrize("kind", ABOUT_OTHERS)
def test_fact_changes_only_what_the_identity_of_its_site_permits(
    kind: str, proofs: FactProofs, texts: dict[Given, str]
) -> None:
    effects, permitted = ABOUT_OTHERS[kind]
    wrong = {
        given: found
        for given, text in texts.items()
        if (found := set(effects(proofs, text))) != permitted(given)
    }
    assert not wrong
    # Some credentials permit effects; without a credential no effect is permitted.
    assert any(permitted(given) for given in texts)
    assert set(effects(proofs, "")) == set()


def test_list_of_sites_removes_none_of_them(proofs: FactProofs, texts: dict[Given, str]) -> None:
    controller = Given("agent", EDGE, (SOUTH, CLOUD), "valid")
    assert list(removals(proofs, texts[controller])) == []
    core = Given("agent", EDGE, ("*",), "valid")
    assert set(removals(proofs, texts[core])) == set(SITES)


def test_expired_identity_is_known_with_its_expiry(
    proofs: FactProofs, texts: dict[Given, str]
) -> None:
    """An operator must see why a service is refused; only its owner's fact is enough for that."""
    worker = texts[Given("worker", EDGE, (), "expired")]
    enabler = texts[Given("enabler", EDGE, (), "expired")]
    agent = texts[Given("agent", EDGE, (), "expired")]
    stated = Facts()
    for key, text in (
        ("worker/gone", worker),
        ("enabler/north", enabler),
        ("worker/other", texts[Given("worker", CLOUD, (), "expired")]),
        ("worker/valid", texts[Given("worker", EDGE, (), "valid")]),
        ("worker/revoked", texts[Given("worker", EDGE, (), "revoked")]),
        ("worker/foreign", texts[Given("worker", EDGE, (), "foreign")]),
        ("worker/kind", enabler),
    ):
        stated.apply(facts.credential_key(key), encode_fact(text))
    found = list(proofs.expired(EDGE, stated))
    assert [(each.kind, each.service) for each in found] == [
        ("enabler", "north"),
        ("worker", "gone"),
    ]
    now = utc_now().timestamp() * 1000
    assert all(each.expired < now for each in found)
    expiry = proofs.expiry(EDGE, agent)
    assert expiry is not None
    assert expiry < now
