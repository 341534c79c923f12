"""The command ``mirror-ray``. Data on stdout, talk on stderr; nothing here imports Ray before a command needs it."""

from __future__ import annotations

from mirror_ray.cli.app import main

__all__ = ["main"]
