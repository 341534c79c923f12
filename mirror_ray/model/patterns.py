"""Regular expressions of users, matched by RE2: in time linear in the text, whatever the expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import re2

from mirror_ray.model.look_ahead import check_flags, without_look_ahead
from mirror_ray.model.pattern_syntax import shown, to_re2

#: Of a list of patterns: some 8,000 names of topics.
_MAX_CHARACTERS: Final = 250_000
#: Of a list, too: chains of what may be empty, ``(a?b?c?...)``, RE2 compiles in quadratic time.
_MAX_GROUPS_AND_REPEATS: Final = 10_000
#: For a compiled pattern, and for what it caches while it is matched.
_MAX_MEMORY_BYTES: Final = 8 << 20
#: Repeats that are counted make a small pattern large: ``(.{1,249})\.(.{1,249})`` has some 9,000 steps.
_MAX_STEPS: Final = 10_000
#: Results in a pattern's cache: as many names as a large cluster has topics, or keys that come again.
_CACHED: Final = 16_384
_CACHED_BYTES: Final = 256
#: Texts up to Kafka's longest name are matched whatever it takes; of longer ones (keys, values) what takes a second.
_LONGEST_NAME_BYTES: Final = 32_767
_MOST_WORK: Final = 200_000_000
_COMPILED: Final = 256
#: A text and ``.*`` behind it, the most common pattern, is matched without RE2.
_BEGINNING: Final = re.compile(r"((?:[A-Za-z0-9_-]|\\[.-])*)\.\*")
#: Each is matched by itself.
_MOST_GUARDED: Final = 100
_SMALLER: Final = "Repeat less by number: write + in place of {1,249}"


class Pattern:
    r"""One expression in RE2's syntax, for whole texts.

    Texts are UTF-8; bytes that are none count as U+FFFD. ``.`` is any character but the line feed, ``$`` the end of
    the text; ``\d``, ``\w`` and ``\b`` are ASCII.

    Raises:
        ValueError: RE2 can't read it, or it is too large.
    """

    def __init__(
        self,
        text: str,
        written: str | None = None,
        *,
        guards: tuple[tuple[bool, Pattern], ...] = (),
        others: tuple[Pattern, ...] = (),
    ) -> None:
        """``written``: how the user wrote it, for errors.

        ``guards``: each has to fit, too, or must not. ``others``: a text that fits one of these fits as well.
        """
        _check_size(text)
        self._guards, self._others = guards, others
        self._written = text if written is None else written
        self._shown = shown(self._written)
        self.text = text
        self._compiled = self._compile(never_capture=True)
        self._steps = int(self._compiled.programsize)
        if self._steps > _MAX_STEPS + 2 * len(text):
            raise ValueError(f"{self._shown} is too large: {self._steps:,} steps. {_SMALLER}")
        begins = _BEGINNING.fullmatch(text)
        self._beginning = begins[1].replace("\\", "").encode() if begins is not None else None
        self._cached = lru_cache(maxsize=_CACHED)(self._decide)

    def __reduce__(self) -> tuple[Callable[..., Pattern], tuple[str]]:
        # Neither RE2's part nor the cache goes to another process.
        return partial(Pattern, guards=self._guards, others=self._others), (self.text,)

    def fits(self, text: str | bytes) -> bool:
        """Whether the whole text matches.

        Raises:
            ValueError: The text is longer than any name, and so long that matching it by this pattern takes seconds.
        """
        fits = self._fits(text) and all(guard.fits(text) is wanted for wanted, guard in self._guards)
        return fits or any(other.fits(text) for other in self._others)

    def _fits(self, text: str | bytes) -> bool:
        if self._beginning is not None:
            content = _encoded(text)
            return content.startswith(self._beginning) and b"\n" not in content
        return self._cached(text) if len(text) <= _CACHED_BYTES else self._decide(text)

    def groups_of(self, text: str) -> tuple[str | None, ...] | None:
        """The whole text and what each group holds of it, by number; None: it does not match."""
        found = self._capturing.fullmatch(_utf8(text)) if self.fits(text) else None
        if found is None:
            return None
        return (text, *(None if group is None else group.decode() for group in found.groups()))

    def or_any_of(self, others: Sequence[Pattern]) -> Pattern:
        """Fits what this one fits, or one of these."""
        return Pattern(self.text, self._written, guards=self._guards, others=(*self._others, *others))

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return int(self._capturing.groups)

    @property
    def groupindex(self) -> Mapping[str, int]:
        """Numbers of the groups that have names."""
        return {name.decode(): number for name, number in self._capturing.groupindex.items()}

    @cached_property
    def _capturing(self) -> Any:
        return self._compile(never_capture=False)

    def _compile(self, *, never_capture: bool) -> Any:
        options = re2.Options()
        options.max_mem = _MAX_MEMORY_BYTES
        options.log_errors = False
        options.never_capture = never_capture
        try:
            return re2.compile(self.text.encode(), options)
        except UnicodeEncodeError:
            raise ValueError(f"{self._shown} is not a regular expression: it is no Unicode text") from None
        except re2.error as error:
            raise ValueError(f"{self._shown} {_fault(self.text, error.args[0])}") from None

    def _decide(self, text: str | bytes) -> bool:
        content = _utf8(text)
        if len(content) > _LONGEST_NAME_BYTES and len(content) * self._steps > _MOST_WORK:
            raise ValueError(f"a text of {len(content):,} bytes is too long to be matched by {self._shown}")
        return self._compiled.fullmatch(content) is not None


def _fault(text: str, reason: bytes) -> str:
    message = reason.decode(errors="replace")
    if "too large" in message:
        return f"is too large. {_SMALLER}"
    if "repetition size" in message:
        return f"can't be used: repeats within repeats come to more than 1000 times. {_SMALLER}"
    hint = "; write .* to match everything" if text.lstrip("|").startswith("*") else ""
    return f"is not a regular expression: {message[:100]}{hint}"


def _encoded(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


def _utf8(text: str | bytes) -> bytes:
    content = _encoded(text)
    return content if content.isascii() else str(content, "utf-8", "replace").encode()


def compile_patterns(patterns: Sequence[str]) -> Pattern | None:
    """Compile a list of Java regular expressions as MM2 does: joined by ``|``.

    Returns:
        The pattern; None for an empty list, which matches nothing.

    Raises:
        ValueError: Not a regular expression, or one that uses a part of Java's syntax that has no counterpart.
    """
    if not patterns:
        return None
    guarded = [pattern for pattern in patterns if pattern.removeprefix("^").startswith(("(?!", "(?="))]
    if guarded:
        _check_size("|".join(patterns))
        if len(guarded) > _MOST_GUARDED:
            raise ValueError(f"{len(guarded)} patterns begin with look-ahead, and at most {_MOST_GUARDED} may")
        if len(patterns) > 1:
            check_flags(patterns)
        first, *others = map(_guarded, guarded)
        plain = compile_patterns([pattern for pattern in patterns if pattern not in guarded])
        return first.or_any_of(others if plain is None else [*others, plain])
    try:
        return _compiled("|".join(patterns))
    except ValueError:
        # The one that is to blame is easier to find by itself; in MM2 a comma may also stand within a pattern.
        for pattern in patterns:
            _compiled(pattern)
        raise


def _guarded(pattern: str) -> Pattern:
    """A pattern that begins with look-ahead."""
    guards, rest = without_look_ahead(pattern)
    found = tuple((guard.wanted, Pattern(f"(?:{to_re2(guard.pattern)})(?s:.*)", pattern)) for guard in guards)
    return Pattern(to_re2(rest), pattern, guards=found)


def _check_size(pattern: str) -> None:
    advice = "write what names have in common, with .* for the rest"
    if len(pattern) > _MAX_CHARACTERS:
        raise ValueError(
            f"{shown(pattern)} has {len(pattern):,} characters, and patterns at most {_MAX_CHARACTERS:,} together: "
            f"{advice}"
        )
    if (count := sum(map(pattern.count, "(?*+{"))) > _MAX_GROUPS_AND_REPEATS:
        raise ValueError(
            f"{shown(pattern)} has {count:,} groups and repeats, and patterns at most {_MAX_GROUPS_AND_REPEATS:,} "
            f"together: {advice}"
        )


@lru_cache(maxsize=_COMPILED)
def _compiled(pattern: str) -> Pattern:
    _check_size(pattern)
    return Pattern(to_re2(pattern), pattern)
