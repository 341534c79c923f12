"""Load a configuration file of either form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mirror_ray.config.document import read_document
from mirror_ray.config.files import read_regular
from mirror_ray.config.loaded import ConfigNote, LoadedConfig
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from mirror_ray.config.strimzi import KIND, is_mirror_maker_2, load_mirror_maker_2
from mirror_ray.model.errors import ConfigError

_YAML_SUFFIXES: Final = (".yaml", ".yml", ".json")
#: Room for some ten thousand topics by name.
_LARGEST_BYTES: Final = 1 << 20


def load_settings(path: str | Path, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """Load ``mm2.properties``, a native YAML file, or Strimzi's ``KafkaMirrorMaker2`` resource.

    The suffix decides whether it is YAML, else the content.

    ``environ``: what the ``env`` config provider reads; the process's environment by default.

    Raises:
        ConfigError: With all mistakes at once, each naming the file and the key.
    """
    path = Path(path)
    environ = os.environ if environ is None else environ
    content = _read(path)
    try:
        if _is_native(path, content):
            text = content.decode("utf-8")
            document = read_document(text) if KIND in text else None
            if is_mirror_maker_2(document):
                return _noted(load_mirror_maker_2(document, environ))
            return _noted(load_native(text, environ))
        # Java reads properties as Latin-1; other characters are written as \\u escapes.
        return _noted(load_mm2(content.decode("latin-1"), environ))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from error
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {problem}" for problem in error.problems)) from error


def _read(path: Path) -> bytes:
    try:
        content = read_regular(path, _LARGEST_BYTES)
    except ValueError as error:
        raise ConfigError(f"{error}; name an mm2.properties or a YAML file") from error
    if len(content) > _LARGEST_BYTES:
        raise ConfigError(
            f"{path} is larger than {_LARGEST_BYTES:,} bytes; name topics by patterns, or run several systems"
        )
    return content


def _noted(loaded: LoadedConfig) -> LoadedConfig:
    """The configuration, with a note if no flow is enabled."""
    if any(flow.enabled for flow in loaded.settings.flows):
        return loaded
    idle = ConfigNote(
        kind="off", key="flows", text="none is enabled, so nothing is copied; enable one, for example A->B"
    )
    return replace(loaded, notes=(*loaded.notes, idle))


def _is_native(path: Path, content: bytes) -> bool:
    if path.suffix in _YAML_SUFFIXES:
        return True
    if path.suffix == ".properties":
        return False
    try:
        document = read_document(content.decode("utf-8"))
    except (ConfigError, UnicodeDecodeError):
        return False
    is_native = isinstance(document, dict) and isinstance(document.get("clusters"), dict)
    return is_native or is_mirror_maker_2(document)
