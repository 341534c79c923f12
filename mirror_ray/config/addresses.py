"""Checks of brokers' addresses, and of aliases and separators, which become parts of topics' names."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final

from pydantic import AfterValidator

from mirror_ray.config.base import shown
from mirror_ray.model.internal_topics import dead_letters_topic
from mirror_ray.model.topic_names import MAX_NAME_LENGTH, illegal_name

#: Every pair of clusters may be a flow, and one coordinator runs all of them.
MOST_CLUSTERS: Final = 50

#: Kafka accepts addresses that begin with a protocol, and ignores it.
_SERVER: Final = re.compile(r"(?:[A-Za-z0-9_.%-]*://)?(\[[^\]]*\]|[^\[\]:]*):([0-9]{1,5})")
_HIGHEST_PORT: Final = 65_535
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_HOST: Final = 253
#: The dead letter topic has the longest of the names that contain an alias.
_LONGEST_ALIAS: Final = MAX_NAME_LENGTH - len(dead_letters_topic(""))
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._-]+")


def illegal_alias(alias: str) -> str | None:
    """Why an alias can't be part of topics' names; None: it can."""
    if not _CHARACTERS.fullmatch(alias):
        return f"{shown(alias)} can't be an alias: topics are named by it, so letters, digits, '.', '_' and '-' alone"
    if len(alias) > _LONGEST_ALIAS:
        return (
            f"{shown(alias)} has {len(alias)} characters, an alias at most {_LONGEST_ALIAS}: topics are named by it, "
            f"and their names have at most {MAX_NAME_LENGTH}"
        )
    return None


def too_many_clusters(number: int) -> str:
    """The error for too many clusters."""
    return f"{number:,} are listed, at most {MOST_CLUSTERS} are looked after by one system: run several"


def illegal_separator(separator: str, alias: str) -> str | None:
    """Why a separator can't be part of remote topics' names; None: it can."""
    if not _CHARACTERS.fullmatch(separator):
        return f"{shown(separator)} can't stand in a topic's name: letters, digits, '.', '_' and '-' alone may"
    # An alias that is illegal itself has an error of its own.
    return illegal_name(f"{alias}{separator}checkpoints{separator}internal") if illegal_alias(alias) is None else None


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found[2]) <= _HIGHEST_PORT:
        raise ValueError(
            f"{shown(text)} is not HOST:PORT with a port from 1 to {_HIGHEST_PORT}, for example kafka-1:9092 or "
            "[2001:db8::1]:9092"
        )
    host = found[1]
    if not host.startswith("["):
        if not _is_host(host):
            raise ValueError(f"{shown(host)} is neither an IP address nor a host's name")
    elif not _is_address(ipaddress.IPv6Address, host[1:-1]):
        raise ValueError(f"{shown(host[1:-1])} is not an IPv6 address")
    return text


def _is_host(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    if len(host) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        return False
    return not labels[-1].isdigit() or _is_address(ipaddress.IPv4Address, host)


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], host: str) -> bool:
    try:
        kind(host)
    except ValueError:
        return False
    return True


#: ``HOST:PORT``; an IPv6 address in brackets.
Server = Annotated[str, AfterValidator(_server)]
