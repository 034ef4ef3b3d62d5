"""``python -m analytics_enabler``."""

from analytics_enabler.main import main

main()
