"""The entry point of ``python -m storage_agent``, which runs ``mistbow agent``."""

from mistbow.flags import run_service
from storage_agent.main import main
from storage_agent.settings import AgentSettings

run_service(AgentSettings, main)
