"""Chromium without a window, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.support.programs import lack

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--no-sandbox", "--no-proxy-server", "--disable-dev-shm-usage", "--disable-gpu")


@contextmanager
def playwright_chromium() -> Iterator[Browser]:
    """Run the Chromium of this machine within the ``with``.

    Without Chromium, the test is skipped, and in CI it fails.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        lack("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
