"""Limits of the texts, insights and requests that the enabler accepts."""

MAX_PANES = 10_000
"""The maximum number of panes in a window; the cost of a result grows with the number of panes."""

PREFERRED_PANES = 1000
"""The number of panes up to which windows share panes, and up to which the steps of values at
points are short.
"""

MAX_SPAN_POINTS = 10_000
"""The maximum n of EVERY n POINTS with an aggregate without a window, whose state has n points."""

MAX_INSIGHTS = 2000
"""The maximum number of insights that run at the same time."""

MAX_CHARACTERS = 1_000_000
"""The maximum number of characters in the queries of one submission."""

MAX_RESULTS = 100_000
"""The maximum number of rows in one response."""

MAX_RESULTS_WAIT_S = 60.0
"""The maximum time (s) for which a request for results can wait until they are settled."""

MAX_NAME_CHARACTERS = 100
"""The maximum number of characters in an insight's name, which becomes part of requests."""

MAX_FOLLOWERS = 100
"""The maximum number of clients with one token to which results are streamed at the same time.

With all tokens together, the maximum is twice as high. Each of these streams uses a connection to
the storage agent.
"""

MAX_FOLLOWER_CONNECTIONS = 400
"""The maximum number of connections to the storage agent for streams of results.

This is twice the maximum number of streams. The storage agent allows 500 followers by default; the
rest is for the workers.
"""

MAX_EVENT_STREAMS = 250
"""The maximum number of streams of live events with one token at the same time.

With all tokens together, the maximum is twice as high. All streams share their connections to the
storage agent.
"""

MAX_PARAMETERS = 100
"""The maximum number of parameters of a FUNCTION."""

MAX_NODES_OF_STREAMS = 100_000
"""The maximum number of syntax tree nodes that all streams (FROM) in a text expand to."""

MAX_NODES_OF_REFERENCES = 100_000
"""The maximum number of syntax tree nodes that all references in a text expand to."""

MAX_PLAN_NODES = 10_000
"""The maximum number of expression nodes in the plan of an insight.

The limit applies only if the plan has over four times as many nodes as the syntax tree of the text.
"""
