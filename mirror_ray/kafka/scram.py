"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with what Kafka's own clients hold against a broker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka.sasl import Exchange, SaslMistrustError, revealed

if TYPE_CHECKING:
    from scramp import ScramClient

#: Kafka's ``ScramMechanism``: a proof by fewer iterations is cheap to guess the password from.
LEAST_ITERATIONS: Final = 4096
#: Seconds of a processor; nobody stores credentials with more.
_MOST_ITERATIONS: Final = 1_000_000
_ITERATIONS: Final = re.compile(r"(?:^|,)i=(\d{1,20})(?:,|$)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramMechanism:
    """SCRAM: both sides prove that they know the password."""

    cluster: str
    principal: str
    password: Secret
    name: str

    async def begin(self) -> Exchange:
        """Two messages, two answers; the second proves the broker."""
        return self._exchange(revealed(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        # A tenth of a second to import, for those who use it.
        import scramp

        client = _client(self.name, self.principal, password)
        try:
            server_first = (yield client.get_client_first().encode()).decode()
            _check_iterations(server_first)
            client.set_server_first(server_first)
            client.set_server_final((yield client.get_client_final().encode()).decode())
        except (scramp.ScramException, ValueError, LookupError) as error:
            raise SaslMistrustError(f"its broker's answer is not what SCRAM wants: {error}") from error


def _client(name: str, principal: str, password: str) -> ScramClient:
    """Scramp's client with user and password as they are, as Kafka's own and librdkafka have them.

    scramp would prepare both by RFC 4013 (SASLprep), so that some characters beyond ASCII were others to the broker.
    """
    import scramp

    client = scramp.ScramClient([name], "user", "password")
    client.username.username, client.password.password = principal, password
    return client


def _check_iterations(server_first: str) -> None:
    found = _ITERATIONS.search(server_first)
    iterations = int(found[1]) if found else LEAST_ITERATIONS
    if iterations < LEAST_ITERATIONS:
        raise SaslMistrustError(
            f"its broker asks for {iterations} iterations, fewer than {LEAST_ITERATIONS} make a password cheap to guess"
        )
    if iterations > _MOST_ITERATIONS:
        raise SaslMistrustError(f"its broker asks for {iterations} iterations, {_MOST_ITERATIONS} are the most")
