"""A fog of containers from a file: starting it, running its scenarios, removing it."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from mistbow.fog_emulation import measure, model
from mistbow.fog_emulation.backend import raise_fog
from mistbow.fog_emulation.docker_backend import DockerBackend
from mistbow.fog_emulation.plan import plan
from mistbow.fog_emulation.scenario import Done, run_scenario
from mistbow.fog_emulation.services import load_services
from mistbow.fog_emulation.timetable import timetable


def start(file: Path, console: Console, *, lenient: bool) -> None:
    """Start the fog of a file, and show what was set beside what is measured.

    Raises ``InvalidRequestError`` for what this machine cannot do, unless ``lenient``.
    """
    fog = plan(model.load(file))
    backend = _backend(file)
    for refusal in raise_fog(backend, lenient=lenient):
        console.print(f"left out: {refusal}", markup=False, highlight=False)
    found = [measure.measure(backend, fog.directions, *way) for way in measure.pairs(fog)]
    console.print(measure.table(found), markup=False, highlight=False, soft_wrap=True)


def run(file: Path, scenario: str, console: Console) -> bool:
    """Run a scenario on the fog that stands; return whether every action was carried out."""

    def tell(done: Done) -> None:
        when = datetime.fromtimestamp(done.at / 1000, UTC).strftime("%H:%M:%S")
        outcome = f": failed: {done.error}" if done.error else ""
        console.print(f"{when} {done.effect}{outcome}", markup=False, highlight=False)

    fog = model.load(file)
    steps = timetable(fog, plan(fog), scenario)
    return not any(each.error for each in run_scenario(_backend(file), steps, report=tell))


def remove(file: Path) -> None:
    """Remove all that is of the fog of a file."""
    _backend(file).down()


def _backend(file: Path) -> DockerBackend:
    name = file.stem.lower().replace("_", "-")
    return DockerBackend(name, plan(model.load(file)), load_services(file))
