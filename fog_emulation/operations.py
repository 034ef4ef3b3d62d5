"""The operations of ``mistbow fog``: start, run a scenario, list, show, and remove a fog."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from fog_emulation import measure, model
from fog_emulation.backend import start_fog
from fog_emulation.docker_backend import DockerBackend
from fog_emulation.docker_status import fogs, list_table, nodes_of, status_table
from fog_emulation.docker_trust import running_trust
from fog_emulation.fog_trust import FogTrust, trust_of
from fog_emulation.plan import plan
from fog_emulation.scenario import EffectOutcome, run_scenario
from fog_emulation.services import load_services
from fog_emulation.timetable import timetable
from fog_emulation.topology import FogPlan


def start(file: Path, console: Console, *, lenient: bool) -> None:
    """Start the fog that a file describes; print the expected and the measured traffic shapes.

    Raises ``InvalidRequestError`` for settings that this machine does not support, unless
    ``lenient``.
    """
    fog = model.load(file)
    planned = plan(fog)
    backend = _backend(file, fog, planned, trust_of(file))
    for refusal in start_fog(backend, lenient=lenient):
        console.print(f"left out: {refusal}", markup=False, highlight=False)
    pairs = measure.pairs(planned)
    found = [measure.measure(backend, planned.directions, *pair) for pair in pairs]
    console.print(measure.table(found), markup=False, highlight=False, soft_wrap=True)


def run(file: Path, scenario: str, console: Console) -> bool:
    """Run a scenario on the running fog; return whether every action succeeded."""

    def report(outcome: EffectOutcome) -> None:
        when = datetime.fromtimestamp(outcome.at / 1000, UTC).strftime("%H:%M:%S")
        failure = f": failed: {outcome.error}" if outcome.error else ""
        console.print(f"{when} {outcome.effect}{failure}", markup=False, highlight=False)

    fog = model.load(file)
    planned = plan(fog)
    steps = timetable(fog, planned, scenario)
    backend = _backend(file, fog, planned, running_trust(file, _name(file)))
    return not any(each.error for each in run_scenario(backend, steps, report=report))


def remove(file: Path) -> None:
    """Remove the fog that a file describes."""
    fog = model.load(file)
    _backend(file, fog, plan(fog)).down()


def show_fogs(console: Console) -> None:
    """Print the fogs on this machine."""
    console.print(list_table(fogs()))


def show_status(file: Path, console: Console) -> bool:
    """Print the nodes of the fog that a file describes; return whether all of them run."""
    nodes = nodes_of(_name(file), plan(model.load(file)))
    console.print(status_table(nodes))
    return all(node.state == "running" for node in nodes)


def _name(file: Path) -> str:
    return file.stem.lower().replace("_", "-")


def _backend(
    file: Path, fog: model.FogModel, planned: FogPlan, trust: FogTrust | None = None
) -> DockerBackend:
    return DockerBackend(_name(file), planned, load_services(file, fog.replicas), trust)
