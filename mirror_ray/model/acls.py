"""Rights as brokers keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AclResource = Literal["TOPIC", "GROUP"]
AclPattern = Literal["LITERAL", "PREFIXED"]
AclPermission = Literal["ALLOW", "DENY"]

#: The name that stands for every topic, or group, in a literal ACL.
EVERY = "*"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One access control entry with what it is on (Kafka's ``AclBinding``). Operations by Kafka's names."""

    resource: AclResource
    name: str
    pattern: AclPattern
    principal: str
    host: str
    operation: str
    permission: AclPermission

    def __str__(self) -> str:
        kind = "" if self.pattern == "LITERAL" else "prefixed "
        where = "" if self.host == "*" else f" from {self.host}"
        on = f"{kind}{self.resource.lower()} {self.name}"
        return f"{self.permission} {self.principal} {self.operation} on {on}{where}"

    @property
    def is_pattern(self) -> bool:
        """Whether it holds for more than one name: of a prefix, or every one."""
        return self.pattern == "PREFIXED" or self.name == EVERY

    def covers(self, name: str) -> bool:
        """Whether it holds for a topic, or group, of this name."""
        if self.pattern == "PREFIXED":
            return name.startswith(self.name)
        return self.name in (name, EVERY)
