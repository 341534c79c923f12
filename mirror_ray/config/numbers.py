"""Numbers in settings, with bounds; errors say why a bound is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_YEAR_S: Final = 365 * 86_400
#: The largest numbers of Kafka's protocol.
_INT16: Final = (1 << 15) - 1
_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NumberBounds:
    """From ``least`` to ``most``, both included; ``why``: the reason for the upper bound, as the end of a sentence.

    For pydantic, behind the type of a number. ``also``: one more number, that has a meaning of its own.
    """

    least: float
    most: float
    why: str
    also: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The type's own schema, and the check behind it."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The bounds as JSON schema has them."""
        bounds = {"minimum": self.least, "maximum": self.most}
        found = handler(schema)
        if self.also is None:
            return {**found, **bounds}
        return {"anyOf": [{**found, **bounds}, {"const": self.also}]}

    def check(self, number: float) -> float:
        """Return the number.

        Raises:
            ValueError: It is outside.
        """
        if self.least <= number <= self.most or number == self.also:
            return number
        if number < self.least:
            or_else = "" if self.also is None else f", or {self.also}"
            raise ValueError(f"{number} is too small: at least {_text(self.least)}{or_else}")
        raise ValueError(f"{number} is too large: at most {_text(self.most)}, {self.why}")


def _text(bound: float) -> str:
    return f"{bound:,.0f}" if bound >= 1 else f"{bound:g}"


_OF_REQUESTS: Final = "the largest number that Kafka's requests hold"
_A_YEAR: Final = "a year: what is to happen later never does"

#: -1: the default of the target's brokers.
ReplicationFactor = Annotated[int, NumberBounds(1, _INT16, _OF_REQUESTS, also=-1)]
Milliseconds = Annotated[int, NumberBounds(1, _INT32, "the largest that clients of Kafka take")]
AgeMilliseconds = Annotated[int, NumberBounds(1, 86_400_000, "a day, the largest that librdkafka takes")]
#: 0: do not wait.
Patience = Annotated[int, NumberBounds(0, _INT32, _OF_REQUESTS)]
RequestBytes = Annotated[int, NumberBounds(1, _INT32, _OF_REQUESTS)]
#: -1: the default of the operating system.
SocketBytes = Annotated[int, NumberBounds(1, _INT32, "the largest that operating systems take", also=-1)]
IntervalSeconds = Annotated[float, NumberBounds(0.001, _YEAR_S, _A_YEAR)]
RetentionSeconds = Annotated[float, NumberBounds(0.001, _INT64 // 1000, "the largest retention.ms that Kafka holds")]
RetentionMilliseconds = Annotated[int, NumberBounds(3_600_000, _INT64, "the largest retention.ms that Kafka holds")]
REPLICATORS: Final = NumberBounds(
    1, 1000, "all of which one coordinator looks after: one replicator copies thousands of partitions"
)
Replicators = Annotated[int, REPLICATORS]
Processes = Annotated[int, NumberBounds(1, 1000, "more than any system needs of them")]
Cores = Annotated[int, NumberBounds(1, 1024, "more than a machine has")]
CpuShare = Annotated[float, NumberBounds(0, 1024, "more than a machine has")]
BufferBytes = Annotated[int, NumberBounds(1 << 20, 1 << 40, "more than a process can hold")]
LeaseMilliseconds = Annotated[
    int, NumberBounds(1000, 3_600_000, "an hour: so long nobody copies what a replicator had that nobody can see dead")
]
StartSeconds = Annotated[float, NumberBounds(0.001, 86_400, "a day: a command that waits longer is forgotten")]
BytesPerSecond = Annotated[int, NumberBounds(1, 10**15, "more than any network carries; leave it out for no limit")]
Price = Annotated[float, NumberBounds(0, 10**9, "more than any network costs")]
Deaths = Annotated[int, NumberBounds(2, 1000, "more than can be told from a loop")]
Hops = Annotated[int, NumberBounds(1, 1000, "more than there are clusters; leave it out for no bound")]
#: 0: no limit.
RequestsPerSecond = Annotated[int, NumberBounds(0, 1_000_000, "more than any registry answers; 0 is no limit")]
GapMarkers = Annotated[int, NumberBounds(1, 1_000_000, "which takes minutes for one gap")]
#: 0: none is filled.
PrefixOffsets = Annotated[int, NumberBounds(0, _INT64, "the largest offset that Kafka has")]
