"""Domains: which enabler plans which sites, and which enabler answers for a deployment."""
