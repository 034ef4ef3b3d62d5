"""The fog as data: its nodes and links at one moment, and what is to run on them."""
