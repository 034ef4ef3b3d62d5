"""Requests for copies from users or the policy, and functions that check the requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from mistbow.client.operation_model import Copy, Restriction, SeriesFilter
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.streams.schemas import METADATA, POINTS, RAW
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.filters import EVERYTHING, canonical_text, covers, may_overlap
from storage_agent.replication.policy.view import CopyDecision
from storage_agent.replication.restrictions import SiteRestrictions
from storage_agent.streams.streams import REPLICA_PREFIX, Stream

_MAX_OFFLOADED_SERIES = 1000


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A request for a copy, from a user or from the policy.

    ``why``: the reason, as a message. ``cause``: the policy's name for its reason; empty for a
    request of a user. ``offload``: whether points are deleted at this site once the target has
    stored them.
    """

    target: str
    stream: str = RAW
    filter: SeriesFilter = EVERYTHING
    why: str = "asked for"
    cause: str = ""
    offload: bool = False

    @classmethod
    def of(cls, decision: CopyDecision) -> Self:
        """Return the request for a copy that the policy decided."""
        return cls(
            target=decision.target,
            stream=decision.stream,
            filter=decision.filter,
            why=decision.why,
            cause=decision.cause,
            offload=decision.offload,
        )


def copy_key(copy: Copy | CopyRequest) -> tuple[str, str, str]:
    """Return the key that identifies a copy: (target, stream, canonical text of the filter)."""
    return copy.target, copy.stream, canonical_text(copy.filter)


def is_restricted(restrictions: SiteRestrictions, target: str, series_filter: SeriesFilter) -> bool:
    """Return whether restrictions may withhold series that match a filter from ``target``."""
    return any(may_overlap(each, series_filter) for each in restrictions.withheld(target))


def check_target_and_stream(request: CopyRequest, membership: FabricMembership) -> None:
    """Raise ``InvalidRequestError`` if the target or the stream of a request is not allowed.

    The target must be another site that this site knows. The stream must be neither ``metadata``
    nor the stream of a replica.
    """
    problems: dict[str, str] = {}
    if request.target == membership.site or membership.peers.get(request.target) is None:
        sites = ", ".join(peer.site for peer in membership.peers) or "none"
        problems[f"target: {request.target} is not another site"] = f"The other sites are {sites}."
    if request.stream == METADATA or request.stream.startswith(REPLICA_PREFIX):
        problems[f"stream: copies of {request.stream} cannot be requested"] = (
            "Each site follows all metadata anyway. Request a copy of a replica at its source site."
        )
    if problems:
        raise InvalidRequestError("; ".join(problems), hint=" ".join(problems.values()))


def check_filter(request: CopyRequest, stream: Stream, restrictions: SiteRestrictions) -> None:
    """Check the filter of a request against the requested stream and the restrictions.

    Raises ``InvalidRequestError`` if a filter is given for a stream without points, and
    ``ConflictError`` if a restriction withholds all series of the filter from the target.
    """
    if not request.filter.all and not stream.log.schema.equals(POINTS):
        raise InvalidRequestError(
            f"filter: only streams of points can be filtered, not {request.stream}",
            hint="Omit the filter to copy the complete stream.",
        )
    for withheld in restrictions.withheld(request.target):
        if covers(withheld, request.filter):
            raise ConflictError(
                f"a restriction withholds {canonical_text(withheld)} from the site "
                f"{request.target}",
                hint="GET /replication/restrictions lists the restrictions.",
            )


def check_offload(
    request: CopyRequest, others: Iterable[Copy], restrictions: SiteRestrictions
) -> None:
    """Check a request for an offload against the restrictions and the other copies ``others``.

    Raises ``InvalidRequestError`` if the request selects other data than points, selects points by
    group or label, or names too many series. Raises ``ConflictError`` if restrictions withhold
    points from the target, or if another offload may include the same series.
    """
    series_filter = request.filter
    if request.stream != RAW or series_filter.group or series_filter.labels:
        raise InvalidRequestError(
            "move: only points can be offloaded, and only by metric and entity",
            hint="Omit group and labels: the agent cannot check later which points had them.",
        )
    if len(series_filter.metric) * len(series_filter.entity) > _MAX_OFFLOADED_SERIES:
        raise InvalidRequestError(
            f"move: these metrics and entities form more than {_MAX_OFFLOADED_SERIES} series",
            hint="Name only metrics or only entities, or request several copies.",
        )
    if is_restricted(restrictions, request.target, series_filter):
        raise ConflictError(
            f"move: restrictions withhold some series of {canonical_text(series_filter)} from "
            f"the site {request.target}",
            hint="GET /replication/restrictions lists the restrictions.",
        )
    for other in others:
        offloads = other.offload or other.offloaded_to is not None
        if (
            offloads
            and copy_key(other) != copy_key(request)
            and may_overlap(other.filter, series_filter)
        ):
            raise ConflictError(
                f"move: another copy offloads {canonical_text(other.filter)} to the site "
                f"{other.target}",
                hint="Copies that offload points must differ in metrics or entities.",
            )


def check_restrictions(
    offloaded: Iterable[Copy], declared: tuple[Restriction, ...], restrictions: SiteRestrictions
) -> None:
    """Raise ``ConflictError`` if new restrictions withhold offloaded points from their target.

    ``offloaded``: the copies with offloaded points. ``declared``: the new restrictions, which
    replace the declared restrictions. ``restrictions``: contains the restrictions in the settings.
    """
    broken = [
        copy
        for copy in offloaded
        if any(
            may_overlap(each, copy.filter) for each in restrictions.withheld(copy.target, declared)
        )
    ]
    if broken:
        targets = ", ".join(copy.target for copy in broken)
        paths = (f"/replication/copies/{copy.id}?target={copy.target}" for copy in broken)
        raise ConflictError(
            f"points were offloaded to {targets}, but these restrictions withhold the points "
            f"from this target",
            hint=" ".join(
                f"DELETE {path}&force=true withdraws the copy; its points are lost."
                for path in paths
            ),
        )
