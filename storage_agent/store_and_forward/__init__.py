"""Store and forward: stores points in Ignite, or spools points while Ignite is unavailable."""
