"""The typed Python clients of the enabler and of the workers, sync and async."""
