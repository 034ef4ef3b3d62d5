"""What the enabler takes at most."""

MOST_PANES = 1000
"""A window is joined from at most this many panes: the cost of a result grows with them."""

MOST_INSIGHTS = 2000
"""Insights that run at the same time."""

MOST_CHARACTERS = 1_000_000
"""Characters of one submission's text."""

MOST_RESULTS = 100_000
"""Rows of one answer."""

MOST_NAME = 100
"""Characters of an insight's name: it becomes part of requests."""

MOST_FOLLOWERS = 100
"""Open streams of results: a client of the storage agent has connections for twice as many."""

MOST_PARAMETERS = 100
"""Parameters of one FUNCTION."""

MOST_NODES_OF_STREAMS = 100_000
"""Nodes that come of all the streams that a text takes metrics FROM."""

MOST_NODES_OF_REFERENCES = 100_000
"""Nodes that come of all the references to insights in a text."""

MOST_MEANT = 10_000
"""Nodes that one insight may mean, where that is more than is written."""
