"""Written by ``python -m grammar.generate``; do not edit."""
