"""The agent: its components, its recovery, and its configuration."""
