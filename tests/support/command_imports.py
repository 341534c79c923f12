"""Importing it imports what commands of a running system import, for processes that are forked afterwards."""

from __future__ import annotations

import os
from importlib import import_module

from mirror_ray.cli.app import _COMMANDS

# Ray reads it when it is imported; each command's own is read when the command connects.
for _name in [name for name in os.environ if name.startswith("RAY_")]:
    del os.environ[_name]

for _module in (
    "actors.loopback_ray",
    "actors.runtime",
    "actors.system",
    "mirror_ray.config.load",
    "mirror_ray.kafka.admin",
    *(f"mirror_ray.cli.{path.partition('.')[0]}" for path in _COMMANDS.values()),
):
    import_module(_module)
