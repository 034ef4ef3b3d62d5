"""The command ``python -m analytics_enabler``, which does the same as ``mistbow enabler``."""

from analytics_enabler.main import main
from analytics_enabler.settings import EnablerSettings
from mistbow.flags import run_service

run_service(EnablerSettings, main)
