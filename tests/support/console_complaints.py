"""The complaints of the console's pages: reported errors, and violations of the policy."""

from playwright.sync_api import ConsoleMessage, Page

_OF_NETWORK = "Failed to load resource"
"""The beginning of the browser's own message about an answer that is an error, or is missing."""


def complaints_of(page: Page) -> list[str]:
    """Return the list to which all later complaints of a page are added."""
    complaints: list[str] = []

    def add(message: ConsoleMessage) -> None:
        is_error = message.type == "error" and not message.text.startswith(_OF_NETWORK)
        if is_error or "Content Security Policy" in message.text:
            complaints.append(f"{message.text} at {message.location} of {page.url}")

    page.on("console", add)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    return complaints
