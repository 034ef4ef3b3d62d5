"""The ``mistbow`` command."""
