"""Config providers: ``${provider:path:key}`` in a value is replaced by what a file or the environment holds.

Source: KIP-297, KIP-887; ``org.apache.kafka.common.config.{ConfigTransformer,provider.*}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mirror_ray.config.properties import parse_properties

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


class ConfigProvider(Protocol):
    """Looks values up; raises LookupError with a sentence for the user when there is none."""

    def get(self, path: str, key: str) -> str:
        """The value of ``key`` at ``path``."""


class FileConfigProvider:
    """Kafka's ``FileConfigProvider``: ``${file:/path/to/a.properties:key}``."""

    def __init__(self, allowed_paths: tuple[str, ...] = ()) -> None:
        self._allowed = allowed_paths

    def get(self, path: str, key: str) -> str:
        """The value of a key of a ``.properties`` file (UTF-8)."""
        try:
            entries = parse_properties(_read(path, self._allowed))
        except ValueError as error:
            raise LookupError(f"{path} can't be read: {error}") from error
        if key not in entries:
            raise LookupError(f"{path} has no key {key!r}")
        return entries[key]


class DirectoryConfigProvider:
    """Kafka's ``DirectoryConfigProvider``: ``${dir:/path:file}`` is the content of the file."""

    def __init__(self, allowed_paths: tuple[str, ...] = ()) -> None:
        self._allowed = allowed_paths

    def get(self, path: str, key: str) -> str:
        """The content of the file ``key`` in the directory ``path``."""
        if "/" in key or key in ("", ".", ".."):
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        return _read(str(Path(path) / key), self._allowed)


class EnvVarConfigProvider:
    """Kafka's ``EnvVarConfigProvider``: ``${env:NAME}``, also written ``${env::NAME}``."""

    def __init__(self, environ: Mapping[str, str], allowlist_pattern: str | None = None) -> None:
        self._environ = environ
        try:
            self._allowed = re.compile(allowlist_pattern or ".*", re.ASCII)
        except re.error as error:
            raise ValueError(f"{allowlist_pattern!r} is not a regular expression: {error}") from error

    def get(self, path: str, key: str) -> str:
        """The value of the environment variable ``key``."""
        if path:
            raise LookupError(f"an environment variable has no path: write ${{env:{key}}}")
        if not self._allowed.fullmatch(key):
            raise LookupError(f"allowlist.pattern does not let the environment variable {key} through")
        if key not in self._environ:
            raise LookupError(f"the environment variable {key} is not set")
        return self._environ[key]


def _read(path: str, allowed: tuple[str, ...]) -> str:
    real = Path(path).resolve()
    if allowed and not any(real.is_relative_to(Path(parent).resolve()) for parent in allowed):
        raise LookupError(f"allowed.paths does not let {path} through")
    try:
        return real.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise LookupError(f"{path} can't be read: {reason}") from error


def resolve(value: str, providers: Mapping[str, ConfigProvider]) -> str:
    """Replace each reference in a value. What a provider returns is not looked at again.

    Raises:
        LookupError: No such provider, or it has no such value. The text never holds a value.
    """

    def replace(match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in providers:
            known = ", ".join(providers) or "none"
            raise LookupError(f"{match[0]} names the config provider {name!r}; declared are: {known}")
        return providers[name].get(path, key)

    return _REFERENCE.sub(replace, value)
