"""The stream of live events of a page: it has the events of what the page shows, and no others."""

import pytest
from playwright.sync_api import Page

from tests.support.console_modules import call

STREAMS = """
const [sourceOfBrowser, fetchOfBrowser] = [window.EventSource, window.fetch];
const streams = [];
window.EventSource = class {
  static OPEN = 1;
  static CLOSED = 2;
  readyState = 1;
  constructor(url) { this.query = new URL(url).searchParams; streams.push(this); }
  addEventListener() {}
  close() { this.readyState = 2; }
};
window.fetch = async () => new Response(JSON.stringify({decisions: []}));
const waitFor = async (find) => {
  const end = Date.now() + 5000;
  while (!find() && Date.now() < end) await new Promise((each) => setTimeout(each, 5));
  return find();
};
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
    shown, left = call(page, "app/live.js", STREAMS + body)
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
    count, found = call(page, "app/live.js", STREAMS + body)
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
    count, found = call(page, "app/live.js", STREAMS + body)
    assert (count, found) == (2, [["decisions,states", "d-1/a"]])
