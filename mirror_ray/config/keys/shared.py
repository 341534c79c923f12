"""What keys of more than one scope have in common."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.key import ignored, refused

OURS: Final = "ours: MM2 does not know it"
JMX: Final = "metrics are not served by Java classes; Prometheus reads them over HTTP"
CONNECT_STORAGE: Final = "there is no Connect worker: progress is kept in mm2-ray-state.<source>.internal on the target"
CONNECT_REST: Final = "there are no workers that talk to each other over REST"
EXACTLY_ONCE: Final = "copies are exactly once without transactions, at no cost; there is nothing to turn on"
BYTES_ONLY: Final = "records are copied as bytes"

_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"

#: Connect's converters, of a connector and of a worker.
CONVERTERS: Final = tuple(
    refused(
        f"{which}.converter",
        "records are copied as bytes; remove it, or convert them where they are read",
        _BYTE_ARRAY_CONVERTER,
        *(("org.apache.kafka.connect.storage.SimpleHeaderConverter",) if which == "header" else ()),
    )
    for which in ("key", "value", "header")
) + ignored(BYTES_ONLY, "key.converter.* value.converter.* header.converter.*")
