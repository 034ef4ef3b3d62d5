"""The command ``python -m monitoring_agent``, which equals ``mistbow monitor``."""

from mistbow.flags import run_service
from monitoring_agent.main import main
from monitoring_agent.settings import MonitorSettings

run_service(MonitorSettings, main)
