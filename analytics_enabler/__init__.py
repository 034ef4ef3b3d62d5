"""The analytics enabler: compiles insight queries to fragments and serves their results."""
