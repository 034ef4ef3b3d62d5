"""Bringing the panes of several sites together: who is waited for, and who is not."""
