"""Starts and stops the fog of ``docker-compose.yml``: ``make up`` and ``make down``."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import docker  # type: ignore[import-untyped]
from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]
from rich.console import Console

from analytics.client.enabler import EnablerClient
from analytics.insight_models import DeploymentStatus
from deploy import image
from deploy.certificates import FogCertificates
from deploy.curls import Curls
from deploy.identities import deliver
from fog_emulation.fog_trust import FogTrust
from mistbow.errors import MistbowError, UnavailableError
from suite.example_insights import deploy
from suite.results_table import result_line

CORE = "cloud"
"""The site at which people administer the fog."""

PROJECT = os.environ.get("COMPOSE_PROJECT_NAME", "mistbow")
PORT = int(os.environ.get("MISTBOW_ENABLER_PORT", "8000"))
TRUST = FogTrust(image.ROOT / ".mistbow" / "compose")
CERTIFICATES = FogCertificates(TRUST.folder / "ca")
INSIGHTS = image.ROOT / "examples" / "city.insights"

_WITH_TLS = ("--file", "docker-compose.yml", "--file", "docker-compose.tls.yml")
_HEALTHY_S = 300.0
_RESULTS_S = 120.0
_PAUSE_S = 0.5
_LAST_LINES = 20
_LABEL = "com.docker.compose"
_AGENT_PORT = 8300

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a service's container as text, and whether the container is healthy."""

    healthy: bool
    text: str


def up(base: str, console: Console, *, tls: bool = False) -> None:
    """Start the fog, wait until all containers are healthy, and show first results of the insights.

    The insights are those of the city. The image is built if it is missing, or was made of other
    sources. If the fog runs already, only containers of another image are replaced. ``tls``:
    whether all connections have mutual TLS. Raises ``UnavailableError`` after a time-out.
    """
    began = time.monotonic()

    def report(text: str) -> None:
        since = f"{time.monotonic() - began:6.1f} s  "
        console.print(since + text, markup=False, highlight=False, soft_wrap=True)

    engine = _engine()
    tool = find_tool()
    _build_if_outdated(engine, base, console, report)
    began = time.monotonic()
    _compose(tool, *(_WITH_TLS if tls else ()), "up", "--detach")
    _report_delivery(engine, report)
    _wait_until_healthy(engine, report)
    hints = _where_to_look(_show_first_results(report, tls), _agents(engine, tls), tls)
    console.print(hints, markup=False, highlight=False, soft_wrap=True)


def _build_if_outdated(engine: Any, base: str, console: Console, report: Report) -> None:
    """Build the image if it is missing, or if it was made of other sources, on its former base.

    An image that ``MISTBOW_IMAGE`` names may be of another machine, and is never replaced.
    """
    try:
        labels = engine.images.get(image.NAME).labels
    except ImageNotFound:
        report(f"there is no image {image.NAME} yet: building it")
        image.build(base, console)
        return
    if "MISTBOW_IMAGE" in os.environ:
        return
    found = base_of_rebuild(labels, image.digest_of_sources(), base)
    if found is not None:
        report(f"the sources have changed since the image {image.NAME} was built: building it anew")
        image.build(found, console)


def base_of_rebuild(labels: Mapping[str, str], sources: str, base: str) -> str | None:
    """Return the base on which an image is built again; None: it was made of these sources.

    ``labels``: of the image. ``base``: the base of the command; if it is the default one, the
    former base is used.
    """
    if labels.get(image.SOURCES) == sources:
        return None
    return labels.get(image.BASE_LABEL, base) if base == image.BASE else base


def deliver_identities(console: Console) -> None:
    """Give each container of the fog its identities and tokens; renew those that expire soon."""

    def report(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    _report_delivery(_engine(), report)


def _report_delivery(engine: Any, report: Report) -> None:
    for name, what in deliver(_containers(engine).values(), TRUST, CERTIFICATES).items():
        report(f"{name}: {what}")


def down(*, images: bool, console: Console) -> None:
    """Remove the containers, networks, volumes, identities and tokens of the fog.

    ``images``: whether to remove the image too. Identities and tokens stay while a fog that
    ``mistbow fog`` started is running, since this fog uses the same.
    """
    engine = _engine()
    tool = find_tool()
    _compose(tool, "down", "--volumes", "--remove-orphans")
    shared = _has_emulated(engine)
    if not shared:
        shutil.rmtree(TRUST.folder, ignore_errors=True)
    if images:
        with suppress(ImageNotFound):
            engine.images.remove(image.NAME)
        # Layers that the build left behind.
        engine.images.prune({"dangling": True, "label": image.LABEL})
    rest = "; the identities stay, since a fog of `mistbow fog` uses them too" if shared else ""
    console.print(f"removed{rest}", markup=False, highlight=False, soft_wrap=True)


def find_tool() -> tuple[str, ...]:
    """Return the command ``docker compose``, or else ``docker-compose``.

    Raises ``MistbowError`` if neither command is installed.
    """
    for tool in (("docker", "compose"), ("docker-compose",)):
        try:
            done = subprocess.run((*tool, "version"), capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return tool
    raise MistbowError(
        "neither `docker compose` nor docker-compose is installed",
        hint="install Docker's compose plugin, or docker-compose 1.29",
    )


def _compose(tool: tuple[str, ...], *arguments: str) -> None:
    command = (*tool, "--project-name", PROJECT, *arguments)
    subprocess.run(command, cwd=image.ROOT, check=True)


def _engine() -> Any:
    try:
        engine = docker.from_env()
        engine.ping()
    except DockerException as error:
        raise UnavailableError(f"Docker does not answer: {error}") from error
    return engine


def _has_emulated(engine: Any) -> bool:
    return bool(engine.containers.list(all=True, filters={"label": "mistbow.fog"}))


def _wait_until_healthy(engine: Any, report: Report) -> None:
    deadline = time.monotonic() + _HEALTHY_S
    reported: dict[str, str] = {}
    while True:
        states = {name: _state(each) for name, each in _containers(engine).items()}
        for name, state in sorted(states.items()):
            if reported.get(name) != state.text:
                reported[name] = state.text
                report(f"{name}: {state.text}")
        if states and all(state.healthy for state in states.values()):
            return
        if time.monotonic() > deadline:
            _give_up(engine, [name for name, state in states.items() if not state.healthy], report)
        time.sleep(_PAUSE_S)


def _containers(engine: Any) -> Mapping[str, Any]:
    """Return the containers of the fog: service and number of the replica -> container."""
    ours = {"label": [f"{_LABEL}.project={PROJECT}", f"{_LABEL}.oneoff=False"]}
    found = engine.containers.list(all=True, filters=ours, ignore_removed=True)
    return {
        f"{each.labels[f'{_LABEL}.service']}-{each.labels[f'{_LABEL}.container-number']}": each
        for each in found
    }


def _agents(engine: Any, tls: bool) -> dict[str, str]:
    """Return the published addresses of agents: service and number of the replica -> URL."""
    published = {
        name: container.ports.get(f"{_AGENT_PORT}/tcp")
        for name, container in sorted(_containers(engine).items())
    }
    return {
        name: f"{_scheme(tls)}://{at[0]['HostIp']}:{at[0]['HostPort']}"
        for name, at in published.items()
        if at
    }


def _scheme(tls: bool) -> str:
    return "https" if tls else "http"


def _state(container: Any) -> ContainerState:
    state = container.attrs["State"]
    health = state.get("Health", {}).get("Status")
    if state["Status"] != "running" or state.get("Restarting"):
        return ContainerState(False, f"{state['Status']}, last exit code {state['ExitCode']}")
    return ContainerState(health in (None, "healthy"), health or "running")


def _give_up(engine: Any, unhealthy: list[str], report: Report) -> None:
    for name, container in _containers(engine).items():
        if name in unhealthy:
            report(f"the log of {name} ends with:\n{container.logs(tail=_LAST_LINES).decode()}")
    raise UnavailableError(
        f"unhealthy containers after {_HEALTHY_S:.0f} s: {', '.join(sorted(unhealthy))}",
        hint="the containers are still starting: `make up` waits again, `make down` removes them",
    )


def _show_first_results(report: Report, tls: bool) -> str:
    """Deploy the insights once; show each insight's first result that covers all sites.

    Returns the id of the deployment.

    Changes that a user makes to the deployment in the meantime are kept.
    """
    url, ca = f"{_scheme(tls)}://127.0.0.1:{PORT}", CERTIFICATES.bundle if tls else None
    enabler = EnablerClient(url, token=TRUST.token(CORE, "admin"), ca=ca)
    deadline = time.monotonic() + _RESULTS_S
    seen: set[str] = set()
    deployment_id: str | None = None
    status: DeploymentStatus | None = None
    try:
        while time.monotonic() < deadline:
            with suppress(UnavailableError):
                if deployment_id is None:
                    deployment_id = deploy(enabler, INSIGHTS)
                status = enabler.show(deployment_id)
                for result in enabler.results(deployment_id).results:
                    if result.insight not in seen and not result.missing:
                        seen.add(result.insight)
                        report(result_line(result))
                if seen >= {insight.name for insight in status.insights}:
                    return deployment_id
            time.sleep(_PAUSE_S)
    finally:
        enabler.close()
    why = "the enabler does not answer" if status is None else (status.error or status.status)
    raise UnavailableError(
        f"not every insight has a result after {_RESULTS_S:.0f} s: {why}",
        hint="see `docker logs` of each container; `make down` removes them",
    )


def _where_to_look(deployment: str, agents: Mapping[str, str], tls: bool) -> str:
    admin, reader, sender = (
        str(TRUST.token_file(site, role).relative_to(image.ROOT))
        for site, role in ((CORE, "admin"), (CORE, "reader"), ("edge-1", "sender"))
    )
    url = f"{_scheme(tls)}://127.0.0.1:{PORT}"
    ca = str(CERTIFICATES.bundle.relative_to(image.ROOT)) if tls else ""
    trusted = f" MISTBOW_TLS_CA={ca}" if tls else ""
    curls = Curls(agents["edge-1"], url, sender, reader, ca)
    return f"""
Send a point to the edge in the north, and follow the insight that reads it:
  {curls.post("delay", 4000)}
  {curls.follow(deployment, "worst_delay")}
The agents serve at {", ".join(f"{at} ({name})" for name, at in agents.items())}.
The enabler serves at {url} (API: {url}/docs) with the token in {admin}:
  export MISTBOW_TOKEN_FILE={admin} MISTBOW_ENABLER_URL={url}{trusted}
  .venv/bin/mistbow insights list
  .venv/bin/mistbow insights results ID --follow
`docker logs NAME` shows the log of a container; `make down` removes all."""
