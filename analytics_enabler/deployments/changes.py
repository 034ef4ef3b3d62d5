"""The changes of a deployment's insights as texts, for decisions."""

from analytics_enabler.decision_log import listed
from analytics_enabler.deployments.model import Deployment


def named(deployment: Deployment) -> str:
    """Return a deployment as the subject of a sentence, by its id and its name."""
    name = "" if deployment.name is None else f" ({deployment.name})"
    return f"the deployment {deployment.id}{name}"


def changes_of(old: Deployment, new: Deployment) -> str:
    """Return the insights that an amendment added, changed and removed, as a text."""
    former = {each.name: each.uid for each in old.live}
    present = {each.name: each.uid for each in new.live}
    changes = {
        "new": [name for name in present if name not in former],
        "changed": [name for name in present if former.get(name, present[name]) != present[name]],
        "removed": [name for name in former if name not in present],
    }
    parts = [f"{change} {listed(names)}" for change, names in changes.items() if names]
    return "; ".join(parts) or "no insight has another meaning"
