"""Calls of the console's modules in a browser, and JavaScript for the bodies of these calls."""

from typing import Any

from playwright.sync_api import Page

WAIT_FOR = """
const waitFor = async (find) => {
  const end = Date.now() + 10000;
  while (!find() && Date.now() < end) await new Promise((each) => setTimeout(each, 10));
  return find();
};
"""
"""Waits for a condition: for at most 10 s."""

DRAW = (
    WAIT_FOR
    + """
const {h, render} = await import("/console/vendor/interface.js");
const element = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
document.documentElement.append(element);
const draw = (component, properties) => render(h(component, properties), element);
const remove = () => { render(null, element); element.remove(); };
const seen = (text) => waitFor(() => element.textContent.includes(text));
"""
)
"""Draws a component into ``element``, waits for a text in it, and removes it from the page."""

STREAMS = """
const streams = [];
const sourceOfBrowser = window.EventSource;
window.EventSource = class {
  static OPEN = 1;
  static CLOSED = 2;
  readyState = 1;
  handlers = {};
  constructor(url) { this.query = new URL(url).searchParams; streams.push(this); }
  addEventListener(name, handle) { this.handlers[name] = handle; }
  receive(name, data = {}) {
    this.handlers[name]?.({data: JSON.stringify(data), lastEventId: "1"});
  }
  close() { this.readyState = 2; }
};
"""
"""Replaces the server-sent events of the browser by those that a test sends (``receive``)."""


def call(page: Page, module: str, body: str, *arguments: Any) -> Any:
    """Return the value of a function body with ``m``, the module, and ``a``, the arguments."""
    source = f"async (a) => {{ const m = await import('/console/{module}'); {body} }}"
    return page.evaluate(source, list(arguments))
