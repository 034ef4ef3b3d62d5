"""Copies of this site's streams at other sites, and of theirs here: who holds what, and why."""
