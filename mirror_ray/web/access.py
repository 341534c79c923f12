"""Who gets in, by which tokens and certificate, and what is to be reported of those who did not."""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.model.notice import Notice
from mirror_ray.web.certificate import Certificate
from mirror_ray.web.client_limits import BOUNDS, ClientLimits
from mirror_ray.web.refusal_log import RefusalLog
from mirror_ray.web.tokens import TokenTable

_log = logging.getLogger(__name__)

#: Notices that wait for a coordinator that is away.
_WAITING: Final = 50


class GatewayAccess:
    """Holds the keys, and counts who came without."""

    def __init__(self, settings: GatewaySettings, *, clock: Callable[[], float], bounds: ClientLimits = BOUNDS) -> None:
        """``clock``: monotonic seconds.

        Raises:
            ConfigError: The certificate can't be used.
        """
        self.bounds = bounds
        self.tokens = TokenTable(settings)
        self.needs_token_to_read = settings.reading == "token"
        times = {"first_s": bounds.first_report_s, "last_s": bounds.last_report_s}
        #: Requests refused for want of the right token, and what was no HTTP at all.
        self.unknown = RefusalLog("refused, for they had no right token", clock=clock, **times)
        self.malformed = RefusalLog("what can't be read as an HTTP request", clock=clock, **times)
        self._certificate = Certificate(settings.tls) if settings.tls is not None else None
        self._notices: deque[Notice] = deque(maxlen=_WAITING)
        self.renew()

    @property
    def context(self) -> ssl.SSLContext | None:
        """What a new connection is met with; None: plain HTTP."""
        return self._certificate.context if self._certificate is not None else None

    def renew(self) -> None:
        """Read the tokens' and the certificate's files again. Blocks for as long as that takes."""
        self._notices += [Notice("warning", problem) for problem in self.tokens.renew()]
        if self._certificate is not None and (change := self._certificate.renew()) is not None:
            self._notices.append(Notice("warning" if self._certificate.wrong else "info", change))

    def notices(self) -> list[Notice]:
        """What is to be reported, each once."""
        if (text := self.malformed.due()) is not None:
            _log.warning("%s", text)
        if (text := self.unknown.due()) is not None:
            self._notices.append(Notice("warning", text, refused=True))
        # Another thread may be adding to them.
        return [self._notices.popleft() for _ in range(len(self._notices))]
