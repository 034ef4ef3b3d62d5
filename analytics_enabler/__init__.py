"""The analytics enabler: turns insight queries into fragments and serves their results."""
