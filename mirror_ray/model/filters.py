"""Which topics, groups and topic configs a flow carries over: MM2's filters.

Source: ``org.apache.kafka.connect.mirror.{DefaultTopicFilter,DefaultGroupFilter,DefaultConfigPropertyFilter}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from mirror_ray.model.config_policy import ConfigPolicy

#: The pieces of Java's syntax that Python's ``re`` lacks or reads otherwise, and any other single character.
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\k<(?P<back>\w+)>|\\(?P<escaped>.)|(?P<open_class>\[\^?\]?)|(?P<named>\(\?<(?=[A-Za-z]))"
    r"|(?P<flags>\(\?[a-zA-Z]+\))|(?P<other>.)",
    re.DOTALL,
)
_UNSUPPORTED_ESCAPES = {
    "p": r"\p{...} classes are Java's: write the range, for example [A-Za-z] for \p{Alpha}",
    "P": r"\P{...} classes are Java's: write the range, for example [^A-Za-z] for \P{Alpha}",
    "h": r"\h is Java's: topic names hold no blanks",
    "R": r"\R is Java's: topic names hold no line ends",
    "G": r"\G is Java's and has no meaning for whole names",
}

#: A pattern that stands for one topic only.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\.)+")


def literal_topic(pattern: str) -> str | None:
    """The one topic that a pattern stands for; None: it may fit several."""
    return pattern.replace("\\.", ".") if _LITERAL.fullmatch(pattern) else None


def compile_patterns(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Compile a list of Java regular expressions as MM2 does: joined by ``|``.

    Args:
        patterns: In Java's syntax; what Python writes otherwise is translated.

    Returns:
        The pattern, to be used with ``fullmatch``; None for an empty list, which matches nothing.

    Raises:
        ValueError: Not a regular expression, or one that uses a part of Java's syntax that has no counterpart.
    """
    if not patterns:
        return None
    joined = "|".join(patterns)
    try:
        # ASCII: in Java \w and \d match ASCII only.
        return re.compile(_to_python(joined), re.ASCII)
    except re.error as error:
        hint = "; write .* to match everything" if joined.lstrip("|").startswith("*") else ""
        raise ValueError(f"{joined!r} is not a regular expression: {error}{hint}") from error


def _to_python(pattern: str) -> str:
    """Translate Java's syntax to Python's where they differ."""
    parts: list[str] = []
    in_class = False
    depth = flag_groups = 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if (quoted := token["quoted"]) is not None:
            text = re.escape(quoted)
        elif token["back"] is not None:
            text = f"(?P={token['back']})"
        elif token["escaped"] is not None:
            text = _translate_escape(pattern, text)
        elif in_class:
            if token["open_class"] or pattern.startswith("&&", token.start()):
                raise ValueError(f"{pattern!r} can't be used: sets within sets are Java's; write them as one set")
            in_class = text != "]"
        elif token["open_class"]:
            in_class = True
        elif token["named"]:
            text, depth = "(?P<", depth + 1
        elif token["flags"]:
            # Java's flags hold to the end of the list; Python allows them at its very beginning or for a group.
            if depth or (parts and parts[-1] != "|"):
                raise ValueError(f"{pattern!r} can't be used: write {text} at the beginning of a pattern")
            text, flag_groups = f"{text[:-1]}:", flag_groups + 1
        else:
            depth += {"(": 1, ")": -1}.get(text, 0)
        parts.append(text)
    return "".join(parts) + ")" * flag_groups


def _translate_escape(pattern: str, text: str) -> str:
    if (advice := _UNSUPPORTED_ESCAPES.get(text[1])) is not None:
        raise ValueError(f"{pattern!r} can't be used: {advice}")
    return r"\Z" if text == r"\z" else text


class _ListFilter:
    """Include and exclude lists; a whole name must match, and an exclusion wins."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = compile_patterns(include)
        self._exclude = compile_patterns(exclude)

    def _accepts(self, name: str) -> bool:
        return _matches(self._include, name) and not _matches(self._exclude, name)


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None


class TopicFilter(_ListFilter):
    """MM2's ``DefaultTopicFilter``: ``topics`` and ``topics.exclude``.

    Raises:
        ValueError: A pattern can't be used.
    """

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the lists let the topic through."""
        return self._accepts(topic)


class GroupFilter(_ListFilter):
    """MM2's ``DefaultGroupFilter``: ``groups`` and ``groups.exclude``.

    Raises:
        ValueError: A pattern can't be used.
    """

    def should_replicate_group(self, group: str) -> bool:
        """Whether the lists let the consumer group through."""
        return self._accepts(group)


class ConfigPropertyFilter:
    """MM2's ``DefaultConfigPropertyFilter``: ``config.properties.exclude`` and ``use.defaults.from``; and policies.

    Raises:
        ValueError: A pattern can't be used.
    """

    def __init__(
        self,
        exclude: Sequence[str],
        use_defaults_from: Literal["source", "target"] = "target",
        policies: Mapping[str, ConfigPolicy] = MappingProxyType({}),
    ) -> None:
        self._exclude = compile_patterns(exclude)
        self._use_defaults_from = use_defaults_from
        self._policies = policies

    def should_replicate_config_property(self, key: str) -> bool:
        """Whether a topic config set on the source is set on the remote topic too."""
        return self.policy_for(key) != "target" and not _matches(self._exclude, key)

    def policy_for(self, key: str) -> ConfigPolicy:
        """Who decides on a config that is not excluded; by default the source."""
        return self._policies.get(key, "source")

    def should_replicate_source_default(self, key: str) -> bool:  # noqa: ARG002 - MM2's signature
        """Whether a value that the source merely defaults to is set on the remote topic."""
        return self._use_defaults_from == "source"
