"""Orders: the fragments that a worker should run, in the order in which they start."""

from analytics.plan.orders import Lease, order_of
from tests.analytics_worker.lifecycle.fragments import partial, whole


def test_order_begins_with_the_fragments_whose_results_have_stopped() -> None:
    order = order_of(Lease(1, 1), [partial("b"), whole(), partial("a")], frozenset())
    assert list(order.fragments) == ["w", "b", "a"]
