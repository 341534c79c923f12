"""The gateway's certificate, followed where its files go."""

from __future__ import annotations

import ssl

from mirror_ray.config.files import file_stamp
from mirror_ray.config.gateway import GatewayTls
from mirror_ray.config.server_tls import server_context
from mirror_ray.model.errors import ConfigError

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Certificate:
    """What new connections are shown. Those that are open keep what they were shown."""

    def __init__(self, tls: GatewayTls) -> None:
        """Read the files.

        Raises:
            ConfigError: They can't be used.
        """
        self._tls = tls
        #: Whether the files can't be used as they are now.
        self.wrong = False
        self._seen = self._read_at = self._stamps()
        try:
            self.context = self._read()
        except ValueError as error:
            raise ConfigError(f"gateway.tls.{error}") from error

    def renew(self) -> str | None:
        """Read the files again if they have changed; what came of it, or None: they have not.

        Two files are not changed at one moment: they are read once they are as they were the time before.
        """
        before, self._seen = self._seen, self._stamps()
        if self._seen == self._read_at or self._seen != before:
            return None
        self._read_at = self._seen
        try:
            self.context = self._read()
        except ValueError as error:
            self.wrong = True
            return f"gateway.tls.{error}; the certificate before it is shown until the files are right"
        self.wrong = False
        return "gateway.tls: the files have changed, new connections are shown their certificate"

    def _read(self) -> ssl.SSLContext:
        return server_context(self._tls.certificate, self._tls.key)

    def _stamps(self) -> _Stamp:
        return tuple(file_stamp(path) for path in (self._tls.certificate, self._tls.key))
