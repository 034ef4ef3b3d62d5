"""Backups of a site while it runs, and their restoration into an empty site."""
