"""Mistbow in containers: its image, and the fog of ``docker-compose.yml``."""
