"""The merge of two versions of a deployment that both sides of a split have changed.

Both enablers of a split domain accept amendments, pauses and deletions, and no change may be lost
when the split ends. The result is that of the same requests in the order of their times: the later
text is in force, and the insights of the earlier text have their results up to then.
"""

from collections.abc import Iterator

import msgspec

from analytics_enabler.deployments.model import (
    Deployment,
    DeploymentDeleted,
    Generation,
    generation_uid,
)
from analytics_enabler.deployments.move import Move


def merge(own: Deployment, other: Deployment, frontier: int) -> Deployment:
    """Return the version ``own`` with the changes of the version ``other``.

    The result is ``own`` itself if ``other`` has no further changes. ``frontier``: the frontier of
    the raw stream (ms), at which a pause or a resumption of ``other`` takes effect.
    """
    earlier, later = (own, other) if _changed_at(other) > _changed_at(own) else (other, own)
    merged = later.in_domain(own.domain) if later is other else later
    switched = max(own, other, key=lambda each: each.switched_at or 0)
    if switched.switched_at != merged.switched_at:
        merged = _switched(merged, switched, frontier)
    merged = _with_ended(merged, list(_diverged(earlier, merged)))
    updated_at = max(own.updated_at, other.updated_at)
    merged = msgspec.structs.replace(merged, updated_at=updated_at, move=_last_move(own, other))
    unchanged = msgspec.structs.replace(own, updated_at=updated_at)
    return own if merged == unchanged else merged


def moved_on(deployment: Deployment, deletion: DeploymentDeleted) -> Deployment:
    """Return a deployment with a move to the domain that its deletion names, if any."""
    domain = deletion.moved_to or deletion.also_in
    if domain is None:
        return deployment
    reason = "the deployment has moved to this domain"
    move = Move(domain=domain, reason=reason, at=deletion.at, changed_at=deletion.at)
    return msgspec.structs.replace(deployment, move=move)


def _last_move(own: Deployment, other: Deployment) -> Move | None:
    """Return the move that changed last, among those from the domain of ``own``."""
    moves = [own.move, other.move if other.domain == own.domain else None]
    found = [each for each in moves if each is not None]
    return max(found, key=lambda each: each.changed_at, default=None)


def _changed_at(deployment: Deployment) -> tuple[int, int]:
    """Return the times of the last text and of the last pause or resumption."""
    amended_at = deployment.created_at if deployment.amended_at is None else deployment.amended_at
    return amended_at, deployment.switched_at or 0


def _diverged(earlier: Deployment, later: Deployment) -> Iterator[Generation]:
    """Yield the generations that only the earlier text has, ended where the later text began."""
    common = max((each.since for each in earlier.generations if _is_in(each, later)), default=0)
    for generation in earlier.generations:
        # Older generations have been deleted from the other version.
        if _is_in(generation, later) or generation.since < common:
            continue
        until = _end(generation, earlier, later)
        if generation.until is not None:
            until = min(until, generation.until)
        if until > generation.since:
            yield msgspec.structs.replace(
                generation, until=until, settled=False, paused=False, domain=later.domain
            )


def _end(generation: Generation, earlier: Deployment, later: Deployment) -> int:
    """Return the time (ms) at which the later text replaces a generation of the earlier one.

    The time is not after the beginning of the generation if the later text has the insight in its
    former form, which then has all results.
    """
    same = [each for each in later.generations if each.name == generation.name]
    began = [each.since for each in same if not _is_in(each, earlier)]
    if began:
        return min(began)
    if not same:
        return later.amended_at or 0
    return max(
        generation.since if each.until is None or each.paused else each.until for each in same
    )


def _is_in(generation: Generation, deployment: Deployment) -> bool:
    return any(
        each.uid == generation.uid
        and each.since == generation.since
        and each.definition.meaning == generation.definition.meaning
        for each in deployment.generations
    )


def _with_ended(deployment: Deployment, ended: list[Generation]) -> Deployment:
    """Return a deployment with further ended generations.

    Where a generation of the deployment was in force at the same time, it ends before.
    """
    if not ended:
        return deployment
    generations = list(deployment.generations)
    for added in ended:
        generations = [_cut(each, added) for each in generations]
        generations.insert(0, _distinct(added, deployment.id, generations))
    return msgspec.structs.replace(deployment, generations=tuple(generations))


def _distinct(added: Generation, deployment_id: str, others: list[Generation]) -> Generation:
    """Return a generation with a uid that no other one has.

    The uid changes only if enablers of earlier versions have given it to generations of both sides.
    """
    if all(each.uid != added.uid for each in others):
        return added
    number = 1 + max(each.number for each in others if each.name == added.name)
    uid = generation_uid(deployment_id, number, added.definition, added.since, added.scope)
    return msgspec.structs.replace(added, uid=uid)


def _cut(generation: Generation, added: Generation) -> Generation:
    """Return a generation that ends where one of the same insight begins."""
    if generation.name != added.name or generation.until is None:
        return generation
    if not generation.since <= added.since < generation.until:
        return generation
    return msgspec.structs.replace(generation, until=added.since)


def _switched(deployment: Deployment, by: Deployment, frontier: int) -> Deployment:
    """Return a deployment that is paused or resumed as the version ``by`` is."""
    at = by.switched_at or 0
    if by.paused_at is not None and deployment.paused_at is None:
        return deployment.paused(at, lambda each: max(each.since, frontier))
    if by.paused_at is None and deployment.paused_at is not None:
        return deployment.resumed(at, frontier)
    return msgspec.structs.replace(deployment, switched_at=by.switched_at)
