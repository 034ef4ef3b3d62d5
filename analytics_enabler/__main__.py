"""``python -m analytics_enabler`` is ``mistbow enabler``."""

from mistbow.cli.app import main

main("enabler")
