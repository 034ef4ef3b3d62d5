"""The stream of live events of a page: its events are only the events of the shown data.

A stream that is lost is replaced by requests, until another stream is open.
"""

import pytest
from playwright.sync_api import Page

from tests.support.console_modules import STREAMS, WAIT_FOR, call

STARTED = (
    WAIT_FOR
    + STREAMS
    + """
const fetchOfBrowser = window.fetch;
window.fetch = async () => new Response(JSON.stringify({decisions: []}));
const opened = (count) => waitFor(() => streams.length === count);
const read = () => streams.filter((each) => each.readyState === 1)
  .map((each) => ["topics", "insights"].map((name) => each.query.get(name) ?? ""));
const leavers = [];
const needed = (leave) => { leavers.push(leave); return leave; };
const follow = (name) => needed(m.follow(name, {results: () => {}}));
const need = (topic) => needed(m.need(topic));
// Timers of an equal delay end in the order of their start.
const joined = () => new Promise((each) => setTimeout(each, 80));
const ended = (found) => {
  m.stop();
  leavers.forEach((each) => each());
  [window.EventSource, window.fetch] = [sourceOfBrowser, fetchOfBrowser];
  return found;
};
m.start();
await opened(1);
"""
)


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


def test_stream_ends_the_events_of_a_page_that_is_left(page: Page) -> None:
    body = """
    const leave = [m.follow("d-1/a", {results: () => {}}), m.need("fog")];
    await opened(2);
    const found = [read()];
    leave.forEach((each) => each());
    await opened(3);
    found.push(read());
    return ended(found);
    """
    shown, left = call(page, "app/live.js", STARTED + body)
    assert shown == [["decisions,fog,states", "d-1/a"]]
    assert left == [["decisions,states", ""]]


def test_stream_continues_while_another_part_of_the_page_needs_its_events(page: Page) -> None:
    body = """
    follow("d-1/a");
    need("fog");
    const leave = [m.follow("d-1/a", {results: () => {}}), m.need("fog")];
    await opened(2);
    leave.forEach((each) => each());
    await joined();
    return ended([streams.length, read()]);
    """
    count, found = call(page, "app/live.js", STARTED + body)
    assert (count, found) == (2, [["decisions,fog,states", "d-1/a"]])


def test_next_page_with_the_same_events_continues_the_stream(page: Page) -> None:
    body = """
    const leave = m.follow("d-1/a", {results: () => {}});
    await opened(2);
    leave();
    follow("d-1/a");
    await joined();
    return ended([streams.length, read()]);
    """
    count, found = call(page, "app/live.js", STARTED + body)
    assert (count, found) == (2, [["decisions,states", "d-1/a"]])


CONNECTION = """
const pause = (ms) => new Promise((each) => setTimeout(each, ms));
const is = (state) => waitFor(() => m.connection.value === state);
streams[0].receive("hello", {ping_s: 0.4});
"""


def test_stream_with_pings_stays_and_one_without_is_replaced(page: Page) -> None:
    body = """
    const requests = [];
    const isRead = (path) => path.endsWith("api/insights");
    window.fetch = async (url) => {
      requests.push(new URL(url).pathname);
      return new Response(JSON.stringify({deployments: [], decisions: []}));
    };
    for (let n = 0; n < 5; n += 1) {
      await pause(300);
      streams[0].receive("ping");
    }
    const before = [m.connection.value, streams[0].readyState, requests.length];
    const isLost = await is("lost");
    await waitFor(() => requests.some(isRead));
    const after = [isLost, streams[0].readyState, requests.some(isRead)];
    await opened(2);
    streams[1].receive("hello", {ping_s: 15});
    return ended([before, after, m.connection.value]);
    """
    before, after, last = call(page, "app/live.js", STARTED + CONNECTION + body)
    assert before == ["open", 1, 0]
    assert after == [True, 2, True]
    assert last == "open"


def test_stream_of_an_enabler_without_pings_may_be_silent(page: Page) -> None:
    body = """
    streams[0].receive("hello");
    await pause(1500);
    return ended(m.connection.value);
    """
    assert call(page, "app/live.js", STARTED + CONNECTION + body) == "open"


def test_enabler_that_hangs_is_down_since_its_last_answer(page: Page) -> None:
    body = """
    const clock = await import("/console/app/clock.js");
    clock.learn(new Date(Date.now() + 3_600_000).toUTCString());
    const timeout = AbortSignal.timeout;
    let limit = null;
    AbortSignal.timeout = (ms) => { limit = ms; return timeout.call(AbortSignal, ms / 50); };
    window.fetch = (url, {signal}) => new Promise((_, reject) =>
      signal?.addEventListener("abort", () => reject(signal.reason)));
    await pause(200);
    streams[0].receive("ping");
    const last = Date.now();
    const isDown = await is("down");
    const late = m.downSince.value - last - 3_600_000;
    AbortSignal.timeout = timeout;
    clock.learn(new Date().toUTCString());
    return ended([isDown, limit, late]);
    """
    is_down, limit, late = call(page, "app/live.js", STARTED + CONNECTION + body)
    assert (is_down, limit) == (True, 10_000)
    assert abs(late) <= 1000


def test_deployment_that_was_deleted_without_a_stream_is_dropped(page: Page) -> None:
    body = """
    streams[0].receive("hello");
    for (const id of ["d-1", "d-2"]) streams[0].receive("state", {deployment_id: id});
    need("fog");
    await opened(2);
    streams[1].receive("hello");
    streams[1].receive("state", {deployment_id: "d-2"});
    const before = [...m.states.value.keys()];
    let changes = 0;
    const stop = m.states.listen(() => { changes += 1; });
    streams[1].receive("present", {deployment_ids: ["d-2"]});
    stop();
    return ended([before, [...m.states.value.keys()], changes]);
    """
    found = call(page, "app/live.js", STARTED + body)
    assert found == [["d-1", "d-2"], ["d-2"], 1]
