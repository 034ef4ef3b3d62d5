"""One rule, one module: its ``apply`` returns the better plan, or None where nothing is to do."""
