"""Secrets of a cluster as they are now, on this machine."""

from __future__ import annotations

from mirror_ray.config.secrets import Secret
from mirror_ray.model.errors import ConfigError


def reveal(key: str, secret: Secret) -> str:
    """The secret that stands under ``key``, which names the cluster too.

    Raises:
        ConfigError: A reference leads to nothing here; names the key and the reference.
    """
    try:
        return secret.reveal()
    except LookupError as error:
        raise ConfigError(f"{key}: {error.args[0]}") from error
