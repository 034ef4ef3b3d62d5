"""The operations of ``mistbow fog``: start a fog from a file, run a scenario, remove the fog."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from fog_emulation import measure, model
from fog_emulation.backend import start_fog
from fog_emulation.docker_backend import DockerBackend
from fog_emulation.plan import plan
from fog_emulation.scenario import EffectOutcome, run_scenario
from fog_emulation.services import load_services
from fog_emulation.timetable import timetable


def start(file: Path, console: Console, *, lenient: bool) -> None:
    """Start the fog that a file describes; print the expected and the measured traffic shapes.

    Raises ``InvalidRequestError`` for settings that this machine does not support, unless
    ``lenient``.
    """
    fog = plan(model.load(file))
    backend = _backend(file)
    for refusal in start_fog(backend, lenient=lenient):
        console.print(f"left out: {refusal}", markup=False, highlight=False)
    found = [measure.measure(backend, fog.directions, *way) for way in measure.pairs(fog)]
    console.print(measure.table(found), markup=False, highlight=False, soft_wrap=True)


def run(file: Path, scenario: str, console: Console) -> bool:
    """Run a scenario on the running fog; return whether every action succeeded."""

    def report(outcome: EffectOutcome) -> None:
        when = datetime.fromtimestamp(outcome.at / 1000, UTC).strftime("%H:%M:%S")
        failure = f": failed: {outcome.error}" if outcome.error else ""
        console.print(f"{when} {outcome.effect}{failure}", markup=False, highlight=False)

    fog = model.load(file)
    steps = timetable(fog, plan(fog), scenario)
    return not any(each.error for each in run_scenario(_backend(file), steps, report=report))


def remove(file: Path) -> None:
    """Remove the fog that a file describes."""
    _backend(file).down()


def _backend(file: Path) -> DockerBackend:
    name = file.stem.lower().replace("_", "-")
    return DockerBackend(name, plan(model.load(file)), load_services(file))
