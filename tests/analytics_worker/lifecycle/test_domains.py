"""The domains of a worker's fragments, and the leases of orders."""

import pytest

from analytics.plan.orders import MAX_GENERATION, Lease, lease_from
from analytics_worker.lifecycle.domains import Domains
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import ConflictError, FencedError


def test_order_under_an_older_lease_is_fenced() -> None:
    domains = Domains()
    domains.accept("all", Lease(7, 3))
    domains.accept("all", Lease(7, 3))
    domains.accept("north", Lease(1, 1))
    with pytest.raises(FencedError, match="this worker obeys the enabler with generation 7"):
        domains.accept("all", Lease(7, 2))
    with pytest.raises(FencedError) as refused:
        domains.accept("all", Lease(6, 9))
    assert lease_from(refused.value.details) == Lease(7, 3)
    domains.accept("all", Lease(8, 1))


@pytest.mark.parametrize(
    ("generation", "is_possible"),
    [(1_795_000_000, True), (MAX_GENERATION, True), (MAX_GENERATION + 1, False), (-1, False)],
)
def test_enabler_reads_the_lease_of_a_refusal_whatever_the_clocks_are(
    generation: int, is_possible: bool
) -> None:
    lease = Lease(generation, 1)
    domains = Domains()
    domains.accept("all", lease)
    with pytest.raises(FencedError) as refused:
        domains.accept("all", Lease(generation - 1, 9))
    assert lease_from(refused.value.details) == (lease if is_possible else None)


def test_order_that_was_overtaken_by_a_later_one_is_refused() -> None:
    domains = Domains()
    domains.accept("all", Lease(7, 3), 2)
    domains.accept("north", Lease(7, 3), 1)
    with pytest.raises(FencedError, match="obeyed the later order 2") as refused:
        domains.accept("all", Lease(7, 3), 1)
    assert lease_from(refused.value.details) == Lease(7, 3)
    domains.accept("all", Lease(7, 3), 2)
    domains.accept("all", Lease(7, 3))
    domains.accept("all", Lease(7, 4), 1)


def test_running_fragment_of_another_domain_is_refused() -> None:
    domains = Domains()
    assert domains.of("f") == DEFAULT_DOMAIN
    domains.assign("f", "north")
    assert domains.of("f") == "north"
    domains.check_owner("f", "north", runs=True)
    domains.check_owner("f", "south", runs=False)
    with pytest.raises(ConflictError, match="belongs to the domain north"):
        domains.check_owner("f", "south", runs=True)
