"""The newest deletions of deployments, which an enabler compares with those of other enablers."""

from collections import OrderedDict

from analytics_enabler.deployments.model import DeploymentDeleted
from mistbow.telemetry import get_logger

log = get_logger(__name__)

MAX_DELETED = 10_000
"""The maximum number of deletions that an enabler retains, and of those that are pending."""


class Deletions:
    """The newest deletions, and the newest ones that another domain lacks; the oldest are first."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, DeploymentDeleted] = OrderedDict()
        self._pending: OrderedDict[str, DeploymentDeleted] = OrderedDict()

    def add(self, deployment_id: str, deleted: DeploymentDeleted) -> None:
        """Add a deletion, or replace the former deletion of the same deployment."""
        self.remove(deployment_id)
        self._by_id[deployment_id] = deleted
        if deleted.also_in is not None:
            self._pending[deployment_id] = deleted
        if len(self._by_id) > MAX_DELETED:
            self._by_id.popitem(last=False)
        if len(self._pending) > MAX_DELETED:
            dropped, oldest = self._pending.popitem(last=False)
            log.error("pending_deletion_dropped", deployment=dropped, domain=oldest.also_in)

    def remove(self, deployment_id: str) -> None:
        """Remove the deletion of a deployment that exists again."""
        self._by_id.pop(deployment_id, None)
        self._pending.pop(deployment_id, None)

    def find(self, deployment_id: str) -> DeploymentDeleted:
        """Return the deletion of a deployment, with the time 0 if it was not deleted lately."""
        found = self._by_id.get(deployment_id) or self._pending.get(deployment_id)
        return found or DeploymentDeleted()

    def ids(self) -> list[str]:
        """Return the ids of the deployments that were deleted lately."""
        return list(self._by_id)

    def pending(self) -> dict[str, DeploymentDeleted]:
        """Return the deletions that another domain still lacks: id -> deletion."""
        return dict(self._pending)
