"""Orders: the fragments of one domain that a worker should run, as state instead of commands."""

from collections.abc import Container, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from analytics.plan.fragments import Fragment, Partial
from analytics.plan.status import FragmentStatus
from mistbow.streams.wire import MAX_INT64

MAX_GENERATION = 2**53
"""The maximum generation of a lease that a worker obeys, and reports.

It is far above the generations of all clocks, and leaves room above for a greater generation.
"""

Generation = Annotated[int, msgspec.Meta(ge=0, le=MAX_GENERATION)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT64)]

PartialOwner = tuple[str, str]
"""(group id, slug of the site) of a partial fragment of any version."""


def partial_owner(fragment_id: str) -> PartialOwner | None:
    """Return the owner in the id of a partial fragment; None if the id has too few parts.

    Other fragments have the ids of their groups. For such an id, the result is None, or an owner
    that no partial fragment has.

    >>> partial_owner("all.fair.0123abcd.edge"), partial_owner("all.fair")
    (('all.fair', 'edge'), None)
    """
    match fragment_id.rsplit(".", 2):
        case [group_id, _, site]:
            return group_id, site
        case _:
            return None


class Lease(msgspec.Struct, frozen=True, order=True):
    """The lease of an enabler on its domain; of two leases, the greater one is in force.

    ``generation``: the time (s since the epoch) at which the domain's stream of deployments began,
    so that a new stream has a greater generation than a lost one. ``epoch``: the epoch of this
    stream.
    """

    generation: Generation
    epoch: Epoch

    def __str__(self) -> str:
        return f"generation {self.generation}, epoch {self.epoch}"


def lease_from(details: Any) -> Lease | None:
    """Return the lease in the details of a refused order; None: no lease, or an impossible one.

    A worker of an earlier version sends no lease. A stolen worker may send a lease that no enabler
    can exceed. The clock is no bound for others: a machine without a battery for its clock begins
    in 1970, and the enabler of the lease may have had a clock that was years ahead.

    >>> lease_from({"generation": 3, "epoch": 1}), lease_from(None)
    (Lease(generation=3, epoch=1), None)
    >>> lease_from({"generation": 2**60, "epoch": 1})
    """
    try:
        return msgspec.convert(details, Lease)
    except msgspec.ValidationError:
        return None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The fragments of one domain that a worker should run, under the lease of an enabler.

    The worker starts missing fragments, replaces outdated versions, restarts fenced fragments, and
    stops the other fragments of the domain. ``fragments``: fragment id -> JSON; the worker decodes
    each fragment separately, so an invalid fragment does not delay the others. ``retained``: the
    owners of partial fragments that the worker does not stop, in any version. ``moving``: the ids
    of fragments that other workers should run, but do not run yet. The worker neither stops these
    fragments, nor restarts them if they are fenced. ``checked``: fragment id -> the share (0 to 1)
    of the points whose quality the worker checks; other fragments check none. ``number``: increases
    with the orders of one lease; 0: unknown. ``orphaned``: the ids of fragments whose last worker
    is dead, and that no worker writes yet. Their first queries claim their streams at once, and
    merges wait less for their panes.
    """

    generation: Generation
    epoch: Epoch
    fragments: dict[str, msgspec.Raw] = {}
    retained: frozenset[PartialOwner] = frozenset()
    moving: frozenset[str] = frozenset()
    checked: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]] = {}
    number: Annotated[int, msgspec.Meta(ge=0)] = 0
    orphaned: frozenset[str] = frozenset()

    @property
    def lease(self) -> Lease:
        """The lease of the enabler that sent the order."""
        return Lease(self.generation, self.epoch)


def order_of(
    lease: Lease,
    fragments: Iterable[Fragment],
    retained: frozenset[PartialOwner],
    moving: frozenset[str] = frozenset(),
    checked: Mapping[str, float] = {},
    number: int = 0,
    orphaned: frozenset[str] = frozenset(),
) -> Order:
    """Return the order to run ``fragments``; for the other arguments, see ``Order``."""
    return Order(
        generation=lease.generation,
        epoch=lease.epoch,
        # The worker starts them in this order: results first.
        fragments={
            each.id: msgspec.Raw(msgspec.json.encode(each))
            for each in sorted(fragments, key=lambda one: isinstance(one, Partial))
        },
        retained=retained,
        moving=moving,
        checked=dict(checked),
        number=number,
        orphaned=orphaned,
    )


def surplus(
    running: Iterable[str],
    ordered: Container[str],
    retained: Container[PartialOwner | None],
    moving: Container[str],
) -> list[str]:
    """Return the ids of a domain's running fragments that the worker should stop."""
    return [
        fragment_id
        for fragment_id in running
        if fragment_id not in ordered
        and fragment_id not in moving
        and partial_owner(fragment_id) not in retained
    ]


class OrderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an order.

    ``fragments``: the status of each fragment of the domain. ``refused``: fragment id -> the reason
    why the worker does not run this fragment. ``without_capacity``: the refused fragments for which
    only the capacity of the worker is missing.
    """

    fragments: list[FragmentStatus]
    refused: dict[str, str] = {}
    without_capacity: frozenset[str] = frozenset()


def order_from_json(data: bytes) -> Order:
    """Decode an order; raises ``msgspec.ValidationError`` with the path of an invalid field."""
    order: Order = msgspec.json.decode(data, type=Order)
    return order
