"""From panes to windows."""
