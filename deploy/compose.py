"""Starts and stops the fog of ``docker-compose.yml``: ``make up`` and ``make down``."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
import yaml
from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]
from rich.console import Console

from analytics.client.enabler import EnablerClient
from deploy import image
from deploy.certificates import FogCertificates
from deploy.curls import Curls
from deploy.first_results import FirstResults
from deploy.identities import Delivery, deliver
from deploy.replicas import check_edges, check_replicas
from fog_emulation.docker_backend import FOG_LABEL
from fog_emulation.fog_trust import FogTrust, node_trust, trust_folder
from mistbow.errors import ConflictError, MistbowError, NotFoundError, UnavailableError

CORE = "cloud"
"""The site at which people administer the fog."""

_PROJECT = "mistbow"
PROJECT = os.environ.get("COMPOSE_PROJECT_NAME", _PROJECT)


def folder_of(project: str) -> Path:
    """Return the folder of the operator for the fog of a compose project.

    Fogs of two names do not trust each other. The folder of the usual name is also that of `mistbow
    fog up docker-compose.yml`.
    """
    folder = trust_folder(image.ROOT / "docker-compose.yml")
    return folder if project == _PROJECT else folder.with_name(f"{folder.name}-{project}")


TRUST = FogTrust(folder_of(PROJECT), image.ROOT)
CERTIFICATES = FogCertificates(TRUST.folder / "ca")
INSIGHTS = image.ROOT / "examples" / "city.insights"

_WITH_TLS = ("--file", "docker-compose.yml", "--file", "docker-compose.tls.yml")
_RESULTS_S = 420.0
_PAUSE_S = 0.5
_LAST_LINES = 20
_LABEL = "com.docker.compose"
_AGENT_PORT = 8300
_ENABLER_PORT = 8000

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a service's container as text, and whether the container is healthy."""

    healthy: bool
    text: str


def up(base: str | None, console: Console, *, tls: bool = False) -> None:
    """Start the fog, wait until all containers are healthy, and show first results of the insights.

    The insights of the city are deployed. The image is built if it is missing, or was made of other
    sources; ``base``: see ``image.build``. If the fog runs already, only containers of another
    image are replaced. ``tls``: whether all connections have mutual TLS. Raises
    ``UnavailableError`` after a time-out, ``InvalidRequestError`` if no edge is requested, and
    ``ConflictError`` if the fog has more replicas than requested.
    """
    began = time.monotonic()

    def report(text: str) -> None:
        _print(console, f"{time.monotonic() - began:6.1f} s  {text}")

    engine = _engine()
    tool = find_tool()
    files = _WITH_TLS if tls else ()
    _check_folder(engine)
    command = "make up TLS=1" if tls else "make up"
    requested = config(tool, *files)
    check_edges(requested)
    check_replicas(_containers(engine).values(), requested, _LABEL, command)
    _prepare_image(engine, chosen_image(requested), base, console, report)
    began = time.monotonic()
    _compose(tool, *files, "up", "--detach")
    _report_delivery(engine, report)
    url = enabler_url(_containers(engine)["enabler-1"], tls)
    deployment = _wait_for_results(engine, report, url, tls)
    _print(console, where_to_look(deployment, url, _agents(engine, tls), tls))


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def chosen_image(config: Mapping[str, Any]) -> str | None:
    """Return the image that ``MISTBOW_IMAGE`` names; None: none.

    The variable may also be in the file ``.env``, which only compose reads. ``config``: of
    ``docker compose config``.
    """
    name = str(config["services"]["enabler"]["image"])
    return name if image.CHOSEN or name != image.NAME else None


def _prepare_image(
    engine: Any, chosen: str | None, base: str | None, console: Console, report: Report
) -> None:
    """Build the image if it is missing, or if it was made of other sources.

    A chosen image may be of another machine, and is never built. Raises ``NotFoundError`` if it is
    missing.
    """
    try:
        labels = engine.images.get(chosen or image.NAME).labels
    except ImageNotFound:
        if chosen is not None:
            raise NotFoundError(
                f"MISTBOW_IMAGE names the image {chosen}, which is not on this machine",
                hint=f"Get it by `docker pull {chosen}` or `docker load`, or build it from these "
                f"sources by `MISTBOW_IMAGE={chosen} make images`. Without MISTBOW_IMAGE, "
                "`make up` builds mistbow.",
            ) from None
        report(f"there is no image {image.NAME} yet: building it")
        image.build(base, console)
        return
    if chosen is None and labels.get(image.SOURCES) != image.digest_of_sources():
        report(f"the sources have changed since the image {image.NAME} was built: building it anew")
        image.build(base, console)


def deliver_identities(console: Console) -> None:
    """Give each container of the fog its identities and tokens; renew those that expire soon.

    Raises ``NotFoundError`` if the fog has no container, and ``ConflictError`` if a container was
    left out.
    """
    engine = _engine()
    _check_folder(engine)
    if not _containers(engine):
        raise NotFoundError(f"the fog {PROJECT} has no container", hint="Start it by `make up`.")
    _report_delivery(engine, partial(_print, console)).check_complete()


def _report_delivery(engine: Any, report: Report) -> Delivery:
    delivery = deliver(_containers(engine).values(), TRUST, CERTIFICATES)
    for line in delivery.lines():
        report(line)
    return delivery


def down(*, images: bool, console: Console) -> None:
    """Remove the containers, networks, volumes, identities and tokens of the fog.

    ``images``: whether to remove the images that were built here too. Identities and tokens stay
    while a fog that ``mistbow fog`` started is running, since this fog uses the same. Raises
    ``OSError`` if this user may not remove them.
    """
    engine = _engine()
    tool = find_tool()
    _check_folder(engine)
    _compose(tool, "down", "--volumes", "--remove-orphans")
    if images:
        for name in image.BUILT.remove(engine):
            _print(console, f"removed the image {name}")
        # Layers that the build left behind.
        engine.images.prune({"dangling": True, "label": image.LABEL})
    shared = PROJECT == _PROJECT and _has_emulated(engine)
    if not shared and TRUST.folder.exists():
        shutil.rmtree(TRUST.folder)
    rest = "; the identities stay, since a fog of `mistbow fog` uses them too" if shared else ""
    _print(console, f"removed{rest}")


def _check_folder(engine: Any) -> None:
    """Raise ``ConflictError`` if another clone of Mistbow has started the fog of this name."""
    folders = {
        each.labels.get(f"{_LABEL}.project.working_dir") for each in _containers(engine).values()
    }
    if found := foreign_folder(folders, image.ROOT):
        raise ConflictError(
            f"the fog {PROJECT} on this machine was started from the folder {found}",
            hint="Run `make down` there. Or set COMPOSE_PROJECT_NAME to another name, and "
            "MISTBOW_ENABLER_PORT, MISTBOW_CLOUD_PORT, MISTBOW_REGION_PORTS and MISTBOW_EDGE_PORTS "
            "to free ports.",
        )


def foreign_folder(folders: Iterable[str | None], own: Path) -> str | None:
    """Return the first existing folder other than ``own``, or None.

    ``folders``: the working folders of the containers of a fog. A fog whose folder was deleted can
    be removed from any other folder.
    """
    found = (each for each in folders if each and Path(each).is_dir())
    return next((each for each in found if not Path(each).samefile(own)), None)


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
    subprocess.run(_command(tool, *arguments), cwd=image.ROOT, check=True)


def config(tool: tuple[str, ...], *files: str) -> Mapping[str, Any]:
    """Return the compose file with the values of its variables."""
    command = _command(tool, *files, "config")
    done = subprocess.run(command, cwd=image.ROOT, check=True, stdout=subprocess.PIPE)
    found: Mapping[str, Any] = yaml.safe_load(done.stdout)
    return found


def _command(tool: tuple[str, ...], *arguments: str) -> tuple[str, ...]:
    return (*tool, "--project-name", PROJECT, *arguments)


def _engine() -> Any:
    try:
        engine = docker.from_env()
        engine.ping()
    except DockerException as error:
        raise UnavailableError(f"Docker does not answer: {error}") from error
    return engine


def _has_emulated(engine: Any) -> bool:
    return bool(engine.containers.list(all=True, filters={"label": FOG_LABEL}))


def _wait_for_results(engine: Any, report: Report, url: str, tls: bool) -> str:
    """Wait until all containers are healthy and each insight has a result; return the deployment.

    ``url``: the address of the enabler.

    Insights are deployed before: Docker checks the health of a container only every few seconds.
    """
    deadline = time.monotonic() + _RESULTS_S
    states: dict[str, ContainerState] = {}
    deployment: str | None = None
    ca = CERTIFICATES.bundle if tls else None
    token = TRUST.token(CORE, "admin")
    with closing(EnablerClient(url, token=token, ca=ca, attempts=1)) as client:
        results = FirstResults(client, INSIGHTS, report)
        while time.monotonic() < deadline:
            containers = _containers(engine)
            found = {name: _state(each) for name, each in sorted(containers.items())}
            for name, state in found.items():
                if name not in states or states[name].text != state.text:
                    report(f"{name}: {state.text}")
            states = found
            is_healthy = all(state.healthy for state in states.values())
            if deployment is None:
                workers = sum(map(_has_worker, containers.values()))
                deployment = results.poll(workers, is_ready=is_healthy)
            if is_healthy and deployment is not None:
                return deployment
            time.sleep(_PAUSE_S)
    unhealthy = [name for name, state in states.items() if not state.healthy]
    raise _time_out(engine, unhealthy, results.problem, report)


def _has_worker(container: Any) -> bool:
    needed = node_trust(container.labels, 1)
    return needed is not None and "worker" in needed.identities


def _containers(engine: Any) -> Mapping[str, Any]:
    """Return the containers of the fog: service and number of the replica -> container."""
    ours = {"label": [f"{_LABEL}.project={PROJECT}", f"{_LABEL}.oneoff=False"]}
    found = engine.containers.list(all=True, filters=ours, ignore_removed=True)
    return {
        f"{each.labels[f'{_LABEL}.service']}-{each.labels[f'{_LABEL}.container-number']}": each
        for each in found
    }


def enabler_url(container: Any, tls: bool) -> str:
    """Return the published address of the enabler, also if it does not run at the moment.

    Only compose knows its port, which may be set in the file ``.env``.
    """
    [bound] = container.attrs["HostConfig"]["PortBindings"][f"{_ENABLER_PORT}/tcp"]
    return f"{_scheme(tls)}://{bound['HostIp']}:{bound['HostPort']}"


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


def _time_out(engine: Any, unhealthy: list[str], problem: str, report: Report) -> UnavailableError:
    for name, container in _containers(engine).items():
        if name in unhealthy:
            report(f"the log of {name} ends with:\n{container.logs(tail=_LAST_LINES).decode()}")
    if unhealthy:
        problem = f"unhealthy containers: {', '.join(sorted(unhealthy))}"
    return UnavailableError(
        f"not every insight has a result after {_RESULTS_S:.0f} s: {problem}",
        hint="`docker logs` shows the log of each container; `make up` waits again, `make down` "
        "removes them",
    )


def where_to_look(deployment: str, url: str, agents: Mapping[str, str], tls: bool) -> str:
    """Return the commands with which the operator uses the fog.

    ``url``: the address of the enabler. ``agents``: service and number of the replica -> address.
    """
    # The operator may have removed edge-1.
    edges = (name for name in agents if name.startswith("edge-"))
    edge = min(edges, key=lambda name: int(name.removeprefix("edge-")))
    admin, reader, sender = (
        str(TRUST.token_file(site, role).relative_to(image.ROOT))
        for site, role in ((CORE, "admin"), (CORE, "reader"), (edge, "sender"))
    )
    ca = str(CERTIFICATES.bundle.relative_to(image.ROOT)) if tls else ""
    trusted = f" MISTBOW_TLS_CA={ca}" if tls else ""
    curls = Curls(agents[edge], url, sender, reader, ca)
    core = agents["storage-cloud-1"]
    return f"""
Send a point to {edge}, and follow the insight that reads it:
  {curls.post("delay", 4000)}
  {curls.follow(deployment, "worst_delay")}
The agents serve at {", ".join(f"{at} ({name})" for name, at in agents.items())}.
The enabler serves at {url} (API: {url}/docs) with the token in {admin}:
  export MISTBOW_TOKEN_FILE={admin} MISTBOW_ENABLER_URL={url} MISTBOW_AGENT_URL={core}{trusted}
  .venv/bin/mistbow fabric status
  .venv/bin/mistbow insights list
  .venv/bin/mistbow insights results ID --follow
`docker logs NAME` shows the log of a container; `make down` removes all."""
