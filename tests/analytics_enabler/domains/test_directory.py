"""The sources of insights, and the domain to which they belong."""

import pytest

from analytics_enabler.domains.directory import DomainDirectory
from analytics_enabler.domains.sources import sources_of
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.semantics import Sites
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.domains import Selector, check_domain
from mistbow.errors import ConflictError
from mistbow.fabric import Enabler, Fabric, Site
from tests.analytics_enabler.support import definition, definitions

SITES = Sites(frozenset("abc"), {"node-a": "a", "node-b": "b"}, "a")


def site(name: str, *enablers: Enabler, reachable: bool = True, region: str = "") -> Site:
    return Site(
        name=name,
        node=f"node-{name}",
        url=f"http://{name}:8300",
        region=region,
        enablers=enablers,
        reachable=reachable,
    )


def directory(
    fabric: Fabric,
    domain: str = "all",
    selector: Selector = Selector(),
    *,
    is_fenced: bool = False,
) -> DomainDirectory:
    view = FabricView(AsyncAgentClient("http://127.0.0.1:1"), system_clock, lambda: selector)
    view.whole = fabric
    return DomainDirectory(domain, lambda: selector, view, lambda: is_fenced)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("i = COMPUTE AVG(x, 5 s) EVERY 5 s", None),
        ("i = COMPUTE AVG(x, 5 s) WHEN site == 'a' EVERY 5 s", {"a"}),
        ("i = COMPUTE AVG(x, 5 s) WHEN site IN ('a', 'c') EVERY 5 s", {"a", "c"}),
        ("i = COMPUTE AVG(x, 5 s) WHEN node == 'node-b' EVERY 5 s", {"b"}),
        ("i = COMPUTE AVG(x, 5 s) WHEN region == 'north' EVERY 5 s", None),
        ("i = COMPUTE AVG(x, 5 s) WHEN site == 'unknown' EVERY 5 s", None),
        ("i = COMPUTE AVG(x, 5 s) BY site WHEN site IN ('a', 'b') EVERY 5 s", {"a", "b"}),
    ],
)
def test_sources_are_the_sites_that_conditions_name(text: str, sources: set[str] | None) -> None:
    assert sources_of(definition(text), SITES) == sources


NORTH = Enabler(domain="north", url="http://b:8000", sites=Selector(sites=("b", "c")))
EDGE = Enabler(domain="edge", url="http://c:8000", sites=Selector(labels={"region": "edge"}))
FABRIC = Fabric(
    site="a", sites=(site("a"), site("b", NORTH), site("c", EDGE, region="edge", reachable=False))
)


def test_owners_are_the_domains_with_all_sources_and_the_smallest_is_first() -> None:
    owners = directory(FABRIC).owners
    assert owners(definitions("i = COMPUTE AVG(x, 5 s) EVERY 5 s")) == ["all"]
    at_c = definitions("i = COMPUTE AVG(x, 5 s) WHEN site == 'c' EVERY 5 s")
    assert owners(at_c) == ["edge", "north", "all"]
    both = "i = COMPUTE AVG(x, 5 s) WHEN site == 'b' EVERY 5 s; j = INSIGHT_AT_C"
    both = both.replace("INSIGHT_AT_C", "COMPUTE AVG(x, 5 s) WHEN site == 'c' EVERY 5 s")
    assert owners(definitions(both)) == ["north", "all"]


def test_domain_without_all_sources_owns_nothing() -> None:
    lone = directory(
        Fabric(site="a", sites=(site("a"), site("b"))), "north", Selector(sites=("a",))
    )
    with pytest.raises(ConflictError, match="no domain has all sites that these insights read"):
        lone.owners(definitions("i = COMPUTE AVG(x, 5 s) EVERY 5 s"))
    with pytest.raises(ConflictError, match="outside the domain west"):
        directory(FABRIC, "west", Selector(sites=("a",))).check_owned(
            definitions("i = COMPUTE AVG(x, 5 s) WHEN site == 'b' EVERY 5 s")
        )


def test_active_enabler_is_reachable_and_has_the_greatest_lease() -> None:
    def enabler(generation: int, epoch: int, *, is_active: bool = True) -> Enabler:
        return Enabler(
            domain="all", url="http://x:1", generation=generation, epoch=epoch, is_active=is_active
        )

    sites = (
        site("a"),
        site("b", enabler(5, 1)),
        site("c", enabler(5, 2)),
        site("d", enabler(9, 1, is_active=False)),
        site("e", enabler(9, 2), reachable=False),
    )
    found = directory(Fabric(site="a", sites=sites)).active("all")
    assert found is not None
    assert found.site == "c"
    assert directory(FABRIC).active("edge") is None
    assert directory(FABRIC).other_domains() == ["edge", "north"]


def test_name_of_a_domain_is_short_and_plain() -> None:
    assert check_domain("north-1") == "north-1"
    for name in ("", "North", "a.b", "-a", "a" * 25):
        with pytest.raises(ValueError, match="is not a valid name of a domain"):
            check_domain(name)


def test_enabler_of_an_edge_is_not_active_in_the_domain_of_another_region() -> None:
    forged = Enabler(domain="north", url="http://b:8000", generation=10**12, own_site_only=True)
    other = Enabler(domain="north", url="http://c:8000", generation=1)
    found = directory(Fabric(site="a", sites=(site("a"), site("b", forged), site("c", other))))
    active = found.active("north")
    assert active is not None
    assert active.site == "c"


def test_enabler_of_an_edge_is_not_active_in_the_domain_of_the_core() -> None:
    forged = Enabler(domain="all", url="http://b:8000", generation=10**12, own_site_only=True)
    other = Enabler(domain="all", url="http://c:8000", generation=1)
    found = directory(Fabric(site="a", sites=(site("a"), site("b", forged), site("c", other))))
    assert [each.site for each in found.rivals()] == ["c"]
    active = found.active("all")
    assert active is not None
    assert active.site == "c"


def test_standby_with_other_sites_is_a_warning() -> None:
    def enabler(*sites: str) -> Enabler:
        return Enabler(domain="north", url="http://b:8000", sites=Selector(sites=sites))

    def warnings(rival: Enabler) -> list[str]:
        fabric = Fabric(site="a", sites=(site("a"), site("b", rival), site("c", region="north")))
        own = Selector(sites=("b",), labels={"region": "north"})
        return directory(fabric, "north", own).warnings()

    assert warnings(enabler("b", "c")) == []
    [warning] = warnings(enabler("b"))
    assert warning.startswith(
        "the enabler at the site b has other sites in the domain north (b) than this one (b, c): "
        "give both the same MISTBOW_DOMAIN_SITES"
    )


@pytest.mark.parametrize("own_site_only", [False, True])
def test_announcement_at_the_own_site_is_that_of_the_successor_of_a_fenced_enabler(
    *, own_site_only: bool
) -> None:
    announced = Enabler(domain="all", url="http://a:8000", own_site_only=own_site_only)
    fabric = Fabric(site="a", sites=(site("a", announced), site("b")))
    assert directory(fabric).successor() is directory(fabric).active("all") is None
    fenced = directory(fabric, is_fenced=True)
    successor = fenced.successor()
    assert successor is not None
    assert successor.enabler == announced
    assert fenced.active("all") == successor
    assert fenced.rivals() == [successor]
    assert directory(Fabric(site="a", sites=(site("a"),)), is_fenced=True).successor() is None
