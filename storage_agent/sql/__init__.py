"""SQL queries over the points and streams of an agent, run by DuckDB in processes with limits."""
