"""A metric whose names try to be markup, to reverse the order of texts, and to be addresses."""

import re

import httpx
from playwright.sync_api import expect

from mistbow.clock import system_clock
from tests.support.console_page import Console
from tests.support.suite import Suite

HOSTILE = '<img src=x onerror="window.hacked=1">\u202e/?%41#gnp.exe' + "\u05d0" * 20 + "x" * 440
HOSTILE_QUERY = 'hostile = COMPUTE COUNT("{}", 1 MINUTE) BY region EVERY 1 SECOND'.format(
    HOSTILE.replace('"', '\\"')
)


def check_text_only(console: Console) -> None:
    """Check that the hostile name is shown as text, and has made no element and run no script."""
    page = console.page
    # PromQL writes labels in quotes, and quotes in them after a backslash.
    texts = page.get_by_text(re.compile(r'<img src=x onerror=\\?"window\.hacked=1\\?">'))
    expect(texts.filter(visible=True).first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
    assert "\u202e" not in page.inner_text("body"), "the order of the text is not reversed"


def put_hostile_point(suite: Suite) -> None:
    point = {
        "metricID": HOSTILE, "entityID": HOSTILE, "desc": HOSTILE, "units": HOSTILE[:40],
        "labels": {"region": HOSTILE}, "val": 1, "timestamp": system_clock(),
    }  # fmt: skip
    url = f"{suite.url('agent')}/put"
    httpx.post(url, json={"monitoring": [point]}).raise_for_status()


def has_hostile_result(suite: Suite, deployment: str) -> bool:
    put_hostile_point(suite)
    return bool(suite.enabler.results(deployment, insight="hostile").results)
