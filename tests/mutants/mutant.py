"""What a mutant is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault in one place of the product, that a test must notice."""

    #: Where, and what is wrong then.
    name: str
    #: Of the product.
    file: str
    #: Is in the file once, exactly like that; and what is there instead.
    old: str
    new: str
    #: Test files of the fast tiers that are run first.
    tests: tuple[str, ...]

    @property
    def is_of_kernel(self) -> bool:
        """Whether the record kernel has to be built with it."""
        return self.file.startswith("kernel/")

    def applied(self, text: str) -> str:
        """The file's text with the fault.

        Raises:
            ValueError: What is to be replaced is not in the text, or more than once.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: {self.old!r} is there {found} times, not once: correct the catalogue")
        return text.replace(self.old, self.new)


def mutants_of(module: str, *tests: str) -> Callable[[str, str], Mutant]:
    """What makes a mutant of a module, from what is wrong, and text of it with one ``«old→new»``.

    Args:
        module: A path below ``mirror_ray/``, without its suffix.
        tests: Test files that should notice, below ``tests/unit/`` and without ``test_``.
    """
    return _maker(module, f"mirror_ray/{module}.py", tests)


def kernel_mutants_of(module: str, *tests: str) -> Callable[[str, str], Mutant]:
    """The same of a module of the record kernel, by its name."""
    return _maker(f"kernel/{module}", f"kernel/src/{module}.rs", tests)


def _maker(name: str, file: str, tests: Sequence[str]) -> Callable[[str, str], Mutant]:
    paths = tuple(f"tests/unit/{folder}/test_{test}.py" for folder, test in (test.split("/") for test in tests))

    def make(wrong: str, marked: str) -> Mutant:
        before, old, new, after = re.split("[«→»]", marked)
        old, new = before + old + after, before + new + after
        return Mutant(name=f"{name}: {wrong}", file=file, old=old, new=new, tests=paths)

    return make
