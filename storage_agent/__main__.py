"""``python -m storage_agent`` is ``mistbow agent``."""

from mistbow.cli.app import main

main("agent")
