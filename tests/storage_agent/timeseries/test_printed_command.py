"""The command that ``make up`` prints to send a point, run by a shell as it is printed."""

import json
import subprocess
from pathlib import Path

from deploy.curls import Curls
from mistbow.client.agent import AgentClient
from tests.support.programs import needs


@needs("curl")
def test_printed_command_sends_a_point_to_an_agent(
    url: str, client: AgentClient, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("of-nobody\n")  # this agent has no token, and ignores any
    curls = Curls(url, "http://127.0.0.1:1", sender=str(token), reader=str(token))
    command = curls.post("delay", 42.5)
    done = subprocess.run(("bash", "-c", command), capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["result"] == "OK", done.stderr
    [node] = client.get(metric="delay")
    [found] = node.data
    assert (found.entity, found.values[0].value) == ("by-hand", 42.5)
