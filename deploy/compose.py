"""``make up`` and ``make down``: the fog of ``docker-compose.yml`` on this machine."""

import os
import secrets
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

from deploy import image
from mistbow.client.enabler import EnablerClient
from mistbow.errors import MistbowError, UnavailableError
from mistbow.insights import DeploymentStatus
from mistbow.supervisor.board import plain
from mistbow.supervisor.showcase import deploy

PROJECT = os.environ.get("COMPOSE_PROJECT_NAME", "mistbow")
PORT = int(os.environ.get("MISTBOW_ENABLER_PORT", "8000"))
TOKEN = image.ROOT / ".mistbow" / "compose" / "token"
INSIGHTS = image.ROOT / "examples" / "city.insights"

_HEALTHY_S = 300.0
_RESULTS_S = 120.0
_PAUSE_S = 0.5
_LAST_LINES = 20
_LABEL = "com.docker.compose"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class State:
    """A service's container: whether it is well, and how it is, in words."""

    well: bool
    words: str


def up(base: str, console: Console) -> None:
    """Start the fog, wait until it is well, and show the first results of the city's insights.

    Where it is up already, nothing is changed. Raises ``UnavailableError`` when it takes too long.
    """
    began = time.monotonic()

    def say(text: str) -> None:
        since = f"{time.monotonic() - began:6.1f} s  "
        console.print(since + text, markup=False, highlight=False, soft_wrap=True)

    engine = _engine()
    tool = find_tool()
    try:
        engine.images.get(image.NAME)
    except ImageNotFound:
        say(f"there is no image {image.NAME} yet: building it")
        image.build(base, console)
    make_token()
    began = time.monotonic()
    _compose(tool, "up", "--detach")
    _wait_until_well(engine, say)
    _show_first_results(say)
    console.print(_where_to_look(), markup=False, highlight=False, soft_wrap=True)


def down(*, images: bool, console: Console) -> None:
    """Remove containers, networks, volumes and the token; of images ours too if ``images``.

    The token stays while a fog of ``mistbow fog`` is up, for it is that one's too.
    """
    engine = _engine()
    tool = find_tool()
    make_token()  # docker-compose reads its file only where all that it names is there
    _compose(tool, "down", "--volumes", "--remove-orphans")
    shared = _has_emulated(engine)
    if not shared:
        shutil.rmtree(TOKEN.parent)
    if images:
        with suppress(ImageNotFound):
            engine.images.remove(image.NAME)
        # What the build left behind.
        engine.images.prune({"dangling": True, "label": image.LABEL})
    kept = ", but for the token: a fog of `mistbow fog` has it too" if shared else ""
    console.print(f"all is removed{kept}", markup=False, highlight=False, soft_wrap=True)


def make_token() -> None:
    """Make a token, unless there is one.

    Its folder is closed to other users. The file itself is not: in a container, a user with
    another number reads it.
    """
    TOKEN.parent.mkdir(parents=True, exist_ok=True)
    TOKEN.parent.chmod(0o700)
    if not TOKEN.exists():
        new = TOKEN.with_suffix(".new")
        new.write_text(f"{secrets.token_urlsafe(32)}\n")
        new.chmod(0o644)
        new.rename(TOKEN)


def find_tool() -> tuple[str, ...]:
    """Return ``docker compose``, or else ``docker-compose``; raises ``MistbowError``."""
    for tool in (("docker", "compose"), ("docker-compose",)):
        try:
            done = subprocess.run((*tool, "version"), capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return tool
    raise MistbowError(
        "there is neither `docker compose` nor docker-compose",
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


def _wait_until_well(engine: Any, say: Say) -> None:
    deadline = time.monotonic() + _HEALTHY_S
    told: dict[str, str] = {}
    while True:
        states = {name: _state(each) for name, each in _containers(engine).items()}
        for name, state in sorted(states.items()):
            if told.get(name) != state.words:
                told[name] = state.words
                say(f"{name}: {state.words}")
        if states and all(state.well for state in states.values()):
            return
        if time.monotonic() > deadline:
            _give_up(engine, [name for name, state in states.items() if not state.well], say)
        time.sleep(_PAUSE_S)


def _containers(engine: Any) -> Mapping[str, Any]:
    ours = {"label": f"{_LABEL}.project={PROJECT}"}
    found = engine.containers.list(all=True, filters=ours, ignore_removed=True)
    return {each.labels[f"{_LABEL}.service"]: each for each in found}


def _state(container: Any) -> State:
    state = container.attrs["State"]
    health = state.get("Health", {}).get("Status")
    if state["Status"] != "running" or state.get("Restarting"):
        return State(False, f"{state['Status']}, its last exit code {state['ExitCode']}")
    return State(health in (None, "healthy"), health or "running")


def _give_up(engine: Any, unwell: list[str], say: Say) -> None:
    for name, container in _containers(engine).items():
        if name in unwell:
            say(f"the last lines of {name}:\n{container.logs(tail=_LAST_LINES).decode()}")
    raise UnavailableError(
        f"not well after {_HEALTHY_S:.0f} s: {', '.join(sorted(unwell))}",
        hint="it goes on trying: `make up` waits again, `make down` removes all",
    )


def _show_first_results(say: Say) -> None:
    """Deploy the insights once, and show the first result of each that lacks no site.

    What a user does to them meanwhile stays done.
    """
    enabler = EnablerClient(f"http://127.0.0.1:{PORT}", token=TOKEN.read_text().strip())
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
                        say(plain(result))
                if seen >= {insight.name for insight in status.insights}:
                    return
            time.sleep(_PAUSE_S)
    finally:
        enabler.close()
    why = "the enabler does not answer" if status is None else (status.error or status.status)
    raise UnavailableError(
        f"not every insight has a result after {_RESULTS_S:.0f} s: {why}",
        hint="`docker logs` of each container says more; `make down` removes all",
    )


def _where_to_look() -> str:
    token = TOKEN.relative_to(image.ROOT)
    url = f"http://127.0.0.1:{PORT}"
    return f"""
The enabler answers at {url} (its API: {url}/docs) to who knows the token, {token}:
  export MISTBOW_TOKEN_FILE={token} MISTBOW_ENABLER_URL={url}
  .venv/bin/mistbow insights list
  .venv/bin/mistbow insights results ID --follow
`docker logs NAME` shows what each does; `make down` removes all."""
