"""A site of one node in one process: an Ignite server, and an agent that uses the server."""

import sys
from pathlib import Path

from ignite_server.server import IgniteServer
from storage_agent.main import main
from storage_agent.settings import AgentSettings

if __name__ == "__main__":
    with IgniteServer(Path(sys.argv[1]), durability="log") as server:
        main(AgentSettings(home=Path(sys.argv[1]), ignite_port=server.port))
