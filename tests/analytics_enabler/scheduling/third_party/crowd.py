"""Schedulers of another package: a valid scheduler, and schedulers that fail."""

import os
import signal
import sys
from pathlib import Path

import msgspec

from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Placement


class Roomiest:
    """Places all tasks on the node with the most free memory, or on the node in the settings."""

    class Settings(msgspec.Struct):
        prefer: str = ""

    def prepare(self, settings):
        self._preferred = settings.get("prefer")

    def schedule(self, jobs, fog, current):
        print("a scheduler may print")
        roomiest = max(fog.nodes, key=lambda node: (node.memory_free_mb, node.name)).name
        node = self._preferred or roomiest
        return Decision(
            Placement(
                tuple(
                    Assignment(job=job.id, task=task.id, node=node)
                    for job in jobs
                    for task in job.tasks
                )
            )
        )


class Raising:
    def prepare(self, settings):
        pass

    def schedule(self, jobs, fog, current):
        raise ValueError("the stars stand badly")


class Hanging:
    """Starts a child process, writes the child's id to a file, and loops endlessly."""

    def prepare(self, settings):
        self._note = Path(settings["note"])

    def schedule(self, jobs, fog, current):
        child = os.fork()
        if child:
            self._note.write_text(f"{os.getpid()} {child}")
        signal.alarm(0)
        while True:
            pass


class Endless:
    def prepare(self, settings):
        while True:
            pass


class Dying:
    def prepare(self, settings):
        os.kill(os.getpid(), signal.SIGKILL)


class Silent:
    def prepare(self, settings):
        sys.exit(0)


class Absurd:
    def prepare(self, settings):
        pass

    def schedule(self, jobs, fog, current):
        return None


class Gone:
    """Raises an error with the names of the environment variables that contain tokens."""

    def prepare(self, settings):
        found = [key for key in os.environ if key.startswith("MISTBOW_TOKEN")]
        raise LookupError(f"found {found}")
