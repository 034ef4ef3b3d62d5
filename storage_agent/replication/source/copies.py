"""The list of the copies of this site's streams, which users request and the policy decides."""

from collections.abc import Callable, Iterable

import msgspec

from mistbow.client.operation_model import Copy, ReplicaFact, Restriction
from mistbow.clock import Clock
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import COPIES
from storage_agent.replication.facts import (
    MAX_COPIES,
    content_id,
    copies_of,
    replaces,
    replica_facts,
    replica_stream_name,
)
from storage_agent.replication.filters import covers
from storage_agent.replication.offload.offloaded_points import OffloadedPoints
from storage_agent.replication.restrictions import SiteRestrictions
from storage_agent.replication.source.requests import (
    CopyRequest,
    check_filter,
    check_offload,
    check_restrictions,
    check_target_and_stream,
    copy_key,
    is_restricted,
)
from storage_agent.streams.manifest import Tombstone
from storage_agent.streams.streams import Streams

_MAX_NAME_LENGTH = 100


class Copies:
    """Manages the copies of this site's streams, and publishes the copies as facts for the targets.

    ``fragile``: whether this site's data may be lost at any time. While the value is True, the only
    complete copy of the data is not withdrawn.
    """

    def __init__(
        self,
        membership: FabricMembership,
        restrictions: SiteRestrictions,
        offloaded: OffloadedPoints,
        clock: Clock,
    ) -> None:
        self._membership = membership
        self._restrictions = restrictions
        self._offloaded = offloaded
        self._clock = clock
        self._copies: tuple[Copy, ...] = ()
        self._streams: Streams | None = None
        self.fragile = False

    def open(self, streams: Streams) -> None:
        """Read the copies from the facts of this site, and refresh them (see ``refresh``)."""
        self._streams = streams
        self._copies = copies_of(self._membership.facts_of(self._membership.site))
        self.refresh()

    def all(self) -> tuple[Copy, ...]:
        """Return all copies of this site's streams."""
        return self._copies

    async def request(self, request: CopyRequest) -> Copy:
        """Add and publish a copy that a user requests; return the copy.

        If a copy with the same target, stream and filter exists, the new copy replaces this copy.
        Raises a ``MistbowError`` if the request is invalid, or in conflict with a restriction or an
        offload.
        """
        await self._check(request)
        if request.offload:
            check_offload(request, self._copies, self._restrictions)
        copy = self._make(request, manual=True)
        others = [each for each in self._copies if copy_key(each) != copy_key(copy)]
        self._publish((*others, copy))
        return copy

    async def withdraw(self, copy_id: str, target: str | None, *, force: bool = False) -> None:
        """Remove the copies with the id ``copy_id`` at ``target``.

        If ``target`` is None, remove the copies with this id at all sites. Raises ``NotFoundError``
        if no such copy exists. Unless ``force`` is True, raises ``ConflictError`` if a copy has
        offloaded points, or is the only complete copy of a fragile site's data.
        """
        async with self._offloaded.changing:
            await self._withdraw(copy_id, target, force=force)

    async def _withdraw(self, copy_id: str, target: str | None, *, force: bool) -> None:
        removed = [
            copy for copy in self._copies if copy.id == copy_id and target in (None, copy.target)
        ]
        if not removed:
            raise NotFoundError(
                f"there is no copy {copy_id}" + (f" at {target}" if target else ""),
                hint="GET /replication lists the copies.",
            )
        if not force:
            self._check_withdrawal(removed)
        for each in removed:
            if (offload := self._offloaded.of(each)) is not None:
                await self._offloaded.record(offload.removal())
        # Other copies may have been requested meanwhile.
        keys = {(each.target, each.id) for each in removed}
        self._publish(tuple(each for each in self._copies if (each.target, each.id) not in keys))

    def _check_withdrawal(self, removed: list[Copy]) -> None:
        """Raise ``ConflictError`` if the removal of copies would lose data.

        The error names the data.
        """
        left = tuple(each for each in self._copies if each not in removed)
        offloads = [found for each in removed if (found := self._offloaded.of(each)) is not None]
        reasons = [
            f"points up to {each.to} were offloaded to {each.target}, and are not at this site"
            for each in offloads
        ]
        hints = []
        if offloads:
            hints = [
                "While the copy exists, they can be read; 'Moving points back by hand' in "
                "docs/replication.md describes how to bring them back.",
                "To lose these points permanently, add ?force=true.",
            ]
        if self.fragile and any(self._is_only_complete(each, left) for each in removed):
            reasons.append(
                f"{self._membership.site} is fragile, and no other copy of this data is complete"
            )
            hints.append("Request another copy, and wait until it is complete, or add ?force=true.")
        if reasons:
            raise ConflictError("; ".join(reasons), hint=" ".join(hints))

    def apply_decisions(self, requests: Iterable[CopyRequest]) -> None:
        """Replace the policy's earlier copies by the copies that the policy requests now.

        Copies that users requested remain. An earlier copy that the policy no longer requests
        remains in three cases: the copy has offloaded points; or the copy is complete, and the
        requested copies that replace it are not yet complete; or this site is fragile, and no other
        complete copy at a reachable site has all rows of the copy.
        """
        manual = [each for each in self._copies if each.manual]
        taken = {copy_key(each) for each in manual}
        decided = [self._make(request, manual=False) for request in requests]
        desired = (*manual, *(each for each in decided if copy_key(each) not in taken))
        taken = {copy_key(each) for each in desired}
        left = (each for each in self._copies if copy_key(each) not in taken)
        needed = (each for each in left if self._is_needed(each, desired))
        self._publish(
            (*desired, *(msgspec.structs.replace(each, offload=False) for each in needed))
        )

    def _is_needed(self, copy: Copy, desired: tuple[Copy, ...]) -> bool:
        if copy.offloaded_to is not None:
            return True
        is_replaced = self.fragile or any(replaces(each, copy) for each in desired)
        is_withheld = any(covers(each, copy.filter) for each in copy.withheld)
        return is_replaced and not is_withheld and self._is_only_complete(copy, desired)

    def _is_only_complete(self, copy: Copy, others: tuple[Copy, ...]) -> bool:
        """Return whether ``copy`` is complete, and no copy in ``others`` can replace it.

        A copy can replace ``copy`` if it is complete, selects all rows of ``copy``, and is at a
        reachable site.
        """
        return self._is_complete(copy) and not any(
            replaces(each, copy)
            and self._is_complete(each)
            and self._membership.peers.reachable(each.target)
            for each in others
        )

    def _is_complete(self, copy: Copy) -> bool:
        replica = self._replica_of(copy)
        return replica is not None and replica.complete

    def refresh(self) -> None:
        """Publish the copies with their present restrictions, offloads and incarnations."""
        self._publish(tuple(self._fit(each) for each in self._copies))

    def unacknowledged(self, stream: str) -> Callable[[Tombstone], bool]:
        """Return a function that returns whether a tombstone of a stream is unacknowledged.

        A tombstone is unacknowledged until each replica of the stream has applied the deletion.
        """
        return self._unacknowledged_by(each for each in self._copies if each.stream == stream)

    def owed_to_offloads(self, stream: str) -> Callable[[Tombstone], bool]:
        """Return a function that returns whether a replica of offloaded points must still delete.

        The function takes a tombstone, as that of ``unacknowledged``, which counts all replicas.
        """
        copies = (each for each in self._copies if each.offloaded_to is not None)
        return self._unacknowledged_by(each for each in copies if each.stream == stream)

    def _unacknowledged_by(self, copies: Iterable[Copy]) -> Callable[[Tombstone], bool]:
        acknowledged = []
        for copy in copies:
            replica = self._replica_of(copy)
            acknowledged.append((copy.since, None if replica is None else replica.deleted))
        return lambda tombstone: any(
            tombstone.created >= since if last is None else tombstone.id > last
            for since, last in acknowledged
        )

    def _replica_of(self, copy: Copy) -> ReplicaFact | None:
        """Return the fact that the target of a copy last published about the replica of this copy.

        Returns None if the target has published no such fact.
        """
        for replica in replica_facts(self._membership.facts_of(copy.target)):
            if (replica.source, replica.id) == (self._membership.site, copy.id):
                return replica
        return None

    def find_current(self, target: str, copy_id: str) -> Copy:
        """Return the copy with the id ``copy_id`` at the site ``target``.

        Raises ``ConflictError`` if this copy does not exist, if restrictions withhold its offloaded
        points from ``target``, or if its id is outdated because its restrictions or its stream have
        changed.
        """
        for copy in self._copies:
            is_barred = copy.offloaded_to is not None and is_restricted(
                self._restrictions, target, copy.filter
            )
            is_requested = (copy.target, copy.id) == (target, copy_id)
            if is_requested and not is_barred and self._fit(copy).id == copy.id:
                return copy
        raise ConflictError(
            f"the site {self._membership.site} has no copy {copy_id} for the site {target}"
        )

    def _make(self, request: CopyRequest, *, manual: bool) -> Copy:
        present = next((c for c in self._copies if copy_key(c) == copy_key(request)), None)
        if present is None:
            present = Copy(
                id="",
                target=request.target,
                stream=request.stream,
                filter=request.filter,
                why=request.why,
                since=self._clock(),
            )
        return self._fit(
            msgspec.structs.replace(
                present,
                why=request.why,
                manual=manual,
                cause=request.cause,
                offload=request.offload,
            )
        )

    def _fit(self, copy: Copy) -> Copy:
        """Return a copy with its present restrictions and offload, and its stream's incarnation."""
        if (offload := self._offloaded.of(copy)) is not None:
            # The replica has the only copy of the offloaded points. So its content does not change,
            # and a restriction only stops its updates.
            return msgspec.structs.replace(
                copy, offloaded_to=offload.to, offloaded_in=offload.replica
            )
        stream = None if self._streams is None else self._streams.find_open(copy.stream)
        fitted = msgspec.structs.replace(
            copy,
            offloaded_to=None,
            offloaded_in="",
            incarnation=copy.incarnation if stream is None else stream.incarnation,
            withheld=self._restrictions.withheld(copy.target),
        )
        return msgspec.structs.replace(fitted, id=content_id(fitted))

    async def _check(self, request: CopyRequest) -> None:
        assert self._streams is not None  # noqa: S101 - the API answers once all is open
        check_target_and_stream(request, self._membership)
        stream = await self._streams.get(request.stream)
        check_filter(request, stream, self._restrictions)
        name = replica_stream_name(self._membership.site, self._make(request, manual=True))
        if len(name) > _MAX_NAME_LENGTH:
            raise InvalidRequestError(
                f"stream: the name {request.stream} is too long for a replica",
                hint=f"The replica's name {name} may have {_MAX_NAME_LENGTH} characters at most.",
            )
        if len(self._copies) >= MAX_COPIES:
            raise ConflictError(
                f"the maximum of {MAX_COPIES} copies is reached",
                hint="Withdraw copies that are no longer needed.",
            )

    def check_restrictions(self, declared: tuple[Restriction, ...]) -> None:
        """Raise ``ConflictError`` if restrictions withhold offloaded points from their target."""
        offloaded = [copy for copy in self._copies if self._offloaded.of(copy) is not None]
        check_restrictions(offloaded, declared, self._restrictions)

    def may_offload(self, copy: Copy) -> bool:
        """Return whether a copy may begin, or continue, to offload points."""
        before = self._copies[: self._copies.index(copy)] if copy in self._copies else self._copies
        begun = tuple(each for each in self._copies if self._offloaded.of(each) is not None)
        request = CopyRequest(copy.target, copy.stream, copy.filter)
        others = (*begun, *(each for each in before if each.offload))
        try:
            check_offload(request, others, self._restrictions)
        except MistbowError:
            return False
        return True

    def _publish(self, copies: tuple[Copy, ...]) -> None:
        if copies != self._copies:
            self._copies = copies
            self._membership.publish(COPIES, copies or None)
