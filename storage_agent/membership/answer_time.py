"""The time that a peer has to answer a request.

Without a limit, a stolen site could delay reads over all sites, and loops in the background, for
ever.
"""

from mistbow.client.answer_time import MAX_ANSWER_S, AnswerTime

CONNECT_S = 1.0
ANSWER_S = 3.0
"""The time (s) of a peer for the proof of its identity, and for an answer without a wait."""


def answer_time_of(site: str, size: int = 0, wait_s: float = 0.0) -> AnswerTime:
    """Return the time that a site has to answer a request.

    ``size``: the bytes of the request. ``wait_s``: the time that the handler of the request may
    take.
    """
    # ANSWER_S twice: before a first request, the site proves its identity.
    seconds = CONNECT_S + 2 * ANSWER_S + wait_s
    return AnswerTime(f"the site {site}", seconds, ANSWER_S, MAX_ANSWER_S, size=size)
