"""The enablers that announce themselves to an agent."""

import pytest

from mistbow.errors import InvalidRequestError
from mistbow.fabric import Enabler
from storage_agent.membership.enablers import LOST_S, Enablers, check_enabler

ENABLER = Enabler(domain="north", url="http://edge:8000")


class Timer:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_enabler_expires_without_announcements() -> None:
    timer = Timer()
    enablers = Enablers(timer)
    enablers.announce(ENABLER)
    while timer.now < LOST_S:
        assert enablers.expire() == []
        timer.now += 1.0
    timer.now += 0.1
    assert enablers.expire() == ["north"]
    assert enablers.all() == ()


def test_paused_agent_expires_no_enabler() -> None:
    timer = Timer()
    enablers = Enablers(timer)
    enablers.restore([ENABLER])
    timer.now += 60
    assert enablers.expire() == []
    assert enablers.all() == (ENABLER,)
    enablers.remove("north")
    enablers.remove("north")
    assert enablers.all() == ()


def test_invalid_announcement_is_refused() -> None:
    check_enabler("north", ENABLER, on_loopback=False)
    for domain, on_loopback in (("south", False), ("NORTH", False), ("north", True)):
        with pytest.raises(InvalidRequestError):
            check_enabler(domain, ENABLER, on_loopback=on_loopback)
