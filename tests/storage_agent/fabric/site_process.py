"""A site of one node as one process: an Ignite server and the agent before it."""

import sys
from pathlib import Path

from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from storage_agent.main import main

if __name__ == "__main__":
    with IgniteServer(Path(sys.argv[1]), durability="log") as server:
        main(AgentSettings(home=Path(sys.argv[1]), ignite_port=server.port))
