"""``python -m storage_agent`` serves the storage agent."""

from storage_agent.main import main

main()
