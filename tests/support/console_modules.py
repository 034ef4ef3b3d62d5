"""Calls of the console's modules in a browser."""

from typing import Any

from playwright.sync_api import Page


def call(page: Page, module: str, body: str, *arguments: Any) -> Any:
    """Return the value of a function body with ``m``, the module, and ``a``, the arguments."""
    source = f"async (a) => {{ const m = await import('/console/{module}'); {body} }}"
    return page.evaluate(source, list(arguments))
