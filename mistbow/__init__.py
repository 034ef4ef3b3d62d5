"""Code that several of Mistbow's services share."""

__version__ = "0.1.0"
