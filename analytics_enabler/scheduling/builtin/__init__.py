"""The built-in schedulers, one module each, and the modules that they share."""
