"""Chromium without a window, driven by the DevTools protocol over pipes."""

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.programs import lack

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-proxy-server",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1200,900",
)
_TIMEOUT_S = 60.0


class Browser:
    """A running browser, which answers one call at a time."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._received = b""
        self._calls = 0
        self.events: list[dict[str, Any]] = []
        self.password = ""

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the result of a method; events that arrive before are added to ``events``."""
        number = self._send(method, session, params)
        while (message := self._receive()).get("id") != number:
            self._handle(message)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def wait_for(self, event: str, session: str) -> None:
        """Wait for an event of a page that is not in ``events`` yet."""
        while True:
            message = self._receive()
            self._handle(message)
            if message.get("method") == event and message.get("sessionId") == session:
                return

    def _handle(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        self.events.append(message)
        params, session = message["params"], message.get("sessionId")
        if message["method"] == "Fetch.requestPaused":
            self._send("Fetch.continueRequest", session, {"requestId": params["requestId"]})
        elif message["method"] == "Fetch.authRequired":
            login = {"response": "ProvideCredentials", "username": "", "password": self.password}
            answer = {"requestId": params["requestId"], "authChallengeResponse": login}
            self._send("Fetch.continueWithAuth", session, answer)

    def _send(self, method: str, session: str | None, params: dict[str, Any]) -> int:
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        return self._calls

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _TIMEOUT_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            assert ready, f"the browser did not answer within {_TIMEOUT_S} s"
            part = os.read(self._answers, 2**16)
            assert part, "the browser has ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


class Page:
    """A page (a tab) of a browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol for this page."""
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        """Open an address, and wait until the page is loaded."""
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"
        if not self._has_loaded():
            self._browser.wait_for("Page.loadEventFired", self._session)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def log_in_with(self, password: str) -> None:
        """Enter a password at each request of HTTP Basic, from now on."""
        self._browser.password = password
        self.call("Fetch.enable", handleAuthRequests=True)

    def events(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of this page."""
        return [
            each["params"]
            for each in self._browser.events
            if each["method"] == method and each.get("sessionId") == self._session
        ]

    def _has_loaded(self) -> bool:
        return self.run("document.readyState") == "complete"


@contextmanager
def chromium(home: Path, *, names: dict[str, str]) -> Iterator[Browser]:
    """Run Chromium within the ``with``; skip the test if it is not installed, and fail it in CI.

    ``names``: host name -> address, for the browser only. No other name than these and those of
    loopback has an address.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        lack("chromium is not installed")
    rules = [*(f"MAP {name} {address}" for name, address in names.items()), "MAP * ~NOTFOUND"]
    excluded = ["EXCLUDE 127.0.0.1", "EXCLUDE localhost"]
    options = [
        *_OPTIONS,
        f"--user-data-dir={home}",
        f"--host-resolver-rules={', '.join([*rules, *excluded])}",
    ]
    commands, answers = os.pipe(), os.pipe()
    # The browser reads from descriptor 3 and writes to descriptor 4.
    script = f'exec "$@" 3<&{commands[0]} 4>&{answers[1]} 2>/dev/null'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", program, *options],
        pass_fds=(commands[0], answers[1]),
    )
    os.close(commands[0])
    os.close(answers[1])
    try:
        browser = Browser(commands[1], answers[0])
        yield browser
        browser.call("Browser.close")
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(commands[1])
        os.close(answers[0])
