"""Mistbow in containers: the image, and the fog of ``docker-compose.yml``."""
