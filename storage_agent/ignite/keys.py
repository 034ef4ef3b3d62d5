"""Keys of Ignite's cache ``metadata`` that several parts of the agent use."""

CONFIG_KEY = "configuration"
"""The key of the stored changes of the configuration."""

RESTORING_KEY = "restoring"
"""The key of the id of the backup that is being restored; missing: none is."""

RESTORED_SITE_KEY = "restored_site"
"""The key of the name of the site whose backup was restored; missing: none was."""
