"""``python -m analytics_worker`` is ``mistbow worker``."""

from mistbow.cli.app import main

main("worker")
