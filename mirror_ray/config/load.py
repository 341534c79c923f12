"""Load a configuration file of either form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from mirror_ray.config.loaded import Loaded
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from mirror_ray.model.errors import ConfigError

_YAML_SUFFIXES = (".yaml", ".yml", ".json")


def load_settings(path: str | Path, environ: Mapping[str, str] | None = None) -> Loaded:
    """Load ``mm2.properties`` or a native YAML file, told apart by suffix, else by content.

    Args:
        path: The file.
        environ: What the ``env`` config provider reads; the process's environment by default.

    Raises:
        ConfigError: With all mistakes at once, each naming the file and the key.
    """
    path = Path(path)
    environ = os.environ if environ is None else environ
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}; name an mm2.properties or a YAML file") from error
    try:
        if _is_native(path, content):
            return load_native(content.decode("utf-8"), environ)
        # Java reads properties as Latin-1; other characters are written as \\u escapes.
        return load_mm2(content.decode("latin-1"), environ)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from error
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {problem}" for problem in error.problems)) from error


def _is_native(path: Path, content: bytes) -> bool:
    if path.suffix in _YAML_SUFFIXES:
        return True
    if path.suffix == ".properties":
        return False
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError):
        return False
    return isinstance(document, dict) and isinstance(document.get("clusters"), dict)
