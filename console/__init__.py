"""The console: pages for browsers, which use the REST API of the enabler only."""
