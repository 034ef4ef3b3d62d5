"""A scheduler that places each task on the node that the worker ``steer`` names."""

from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Placement, Refusal

STEER = "steer"


class Steered:
    """Reads the name of the node from the only operator that the worker ``steer`` announces.

    A task that this node may not run, because of its site or its operators, is placed elsewhere.
    """

    def prepare(self, settings):
        """Accept the settings, and use none of them."""

    def schedule(self, jobs, fog, current):
        """Place all tasks, or refuse jobs with a task that no node may run."""
        named = [node.operators[0].split()[0] for node in fog.nodes if node.name == STEER]
        nodes = sorted(
            (node for node in fog.nodes if node.name != STEER),
            key=lambda node: (node.name not in named, node.name),
        )
        placed, refused = [], []
        for job in jobs:
            found = {task.id: _first(nodes, task) for task in job.tasks}
            if None in found.values():
                task = next(task for task, node in found.items() if node is None)
                refused.append(Refusal(job=job.id, task=task, reason="no node may run it"))
                continue
            placed += [Assignment(job=job.id, task=task, node=found[task]) for task in found]
        return Decision(Placement(tuple(placed)), tuple(refused))


def _first(nodes, task):
    for node in nodes:
        at_site = task.pinned in (None, node.site)
        if at_site and set(task.operators) <= set(node.operators):
            return node.name
    return None
