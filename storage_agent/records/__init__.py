"""Stores records of analytics and applications, their schemas, and routing tables."""
