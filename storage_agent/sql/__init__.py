"""SQL over what an agent keeps: DuckDB, in processes of its own that are limited and fed."""
