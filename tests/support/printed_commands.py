"""The commands that ``make up`` prints, taken from its output and run as printed."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.support.conditions import eventually

_VALUE = "4000"
_COMMAND = re.compile(r"^  (sed .+ curl .+)$", re.MULTILINE)
_EXPORT = re.compile(r"^  (export MISTBOW_.+)$", re.MULTILINE)
_OF_OPERATOR = re.compile(r"^  (\.venv/bin/mistbow .+)$", re.MULTILINE)
_DEPLOYMENT = re.compile(r"/api/insights/([^/]+)/results")


def run_printed_commands(output: str, folder: Path, *, timeout: float = 60.0) -> float:
    """Follow the insight, send the point, and wait until the insight has the value of the point.

    ``output``: of ``make up``. ``folder``: where the commands run. Returns the time (s) from the
    point to the result.
    """
    post, follow = _COMMAND.findall(output)
    following = subprocess.Popen(
        ("bash", "-c", follow), cwd=folder, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    threading.Thread(target=lambda: lines.extend(following.stdout or ()), daemon=True).start()
    try:
        eventually(lambda: lines, timeout=timeout, what="a result of the insight")
        began = time.monotonic()
        sent = subprocess.run(
            ("bash", "-c", post), cwd=folder, capture_output=True, text=True, check=False
        )
        assert sent.returncode == 0, sent.stderr
        assert json.loads(sent.stdout)["result"] == "OK"
        eventually(
            lambda: any(_VALUE in line for line in lines), timeout=timeout, what="the sent value"
        )
        return time.monotonic() - began
    finally:
        os.killpg(following.pid, signal.SIGTERM)
        following.wait(10)


def run_commands_of_the_operator(output: str, folder: Path, *, timeout: float = 180.0) -> None:
    """Run the printed commands of Mistbow after the printed line ``export …``.

    ``fabric status`` finds all sites and no problem, ``insights list`` the deployment of ``make
    up``, and ``insights results`` its results.
    """
    [export] = _EXPORT.findall(output)
    status, listing, results = _OF_OPERATOR.findall(output)
    deployment = _DEPLOYMENT.findall(output)[0]

    def run(command: str) -> str:
        # Tables of a pipe have 80 columns otherwise.
        script = f"export COLUMNS=200; {export}; {command}"
        done = subprocess.run(
            ("bash", "-c", script), cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    # Just after a start, results may lag, and links may have lost heartbeats.
    sites = eventually(lambda: run(status), timeout=timeout, what=status, pause=1)
    assert all(site in sites for site in ("cloud", "region-1", "edge-1")), sites
    assert deployment in run(listing)
    # The last results are those of about one tick, most of them of these two insights.
    found = run(results.replace("ID --follow", deployment))
    assert any(insight in found for insight in ("worst_delay", "north_delay")), found
