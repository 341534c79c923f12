"""Configuration: ``mm2.properties`` and native YAML, resolved to one settings object."""
