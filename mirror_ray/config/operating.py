"""Settings of how a system is looked after: the gateway, and what counts as a problem."""

from __future__ import annotations

from typing import Final

from pydantic import Field, SecretStr

from mirror_ray.config.base import Settings

#: Where the gateway listens if the configuration names no port and nobody else has it.
GATEWAY_PORT: Final = 8484


class GatewaySettings(Settings):
    """The gateway: the web page, its JSON, and what Prometheus scrapes."""

    enabled: bool = True
    #: The address to listen on. 0.0.0.0 for a Prometheus or a browser on another machine.
    host: str = "127.0.0.1"
    #: None: 8484, or any other port where that is taken. A port that is given must be free.
    port: int | None = Field(default=None, ge=0, le=65535)
    #: Whoever has it may pause, resume, scale and change from the page. None: nobody may.
    token: SecretStr | None = None
    #: Series of so many partitions are offered; of the others only their topics'.
    metrics_partitions: int = Field(default=2_000, ge=0)


class AlertSettings(Settings):
    """What counts as a problem, in ``status``, on the page, in metrics and alerts alike."""

    #: A flow that is further behind than this.
    lag_s: float = Field(default=300.0, gt=0)
    #: A flow whose lag has grown for so long.
    lag_growing_s: float = Field(default=300.0, gt=0)
    #: No heartbeat was acknowledged for so long.
    heartbeat_s: float = Field(default=30.0, gt=0)
    #: Consumer groups were not carried over for so long.
    checkpoint_s: float = Field(default=60.0, gt=0)
    #: A replicator's death is shown for so long.
    replicator_died_s: float = Field(default=300.0, gt=0)
    #: So many deaths of one replicator, within this time, are a loop.
    crash_loop_deaths: int = Field(default=3, ge=2)
    crash_loop_s: float = Field(default=600.0, gt=0)
    #: A gap is shown for so long; ``mirror-ray gaps`` keeps it.
    gap_s: float = Field(default=3600.0, gt=0)
