"""``make mutants``: which faults in the code that keeps data safe do the fast tests notice?

Each mutant of the catalogue is a fault that a reading or a review of the code named; tools that mutate by operators
(mutmut, cosmic-ray) make thousands of every file, most of them equivalent, so the catalogue is written by hand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.trying import WHOLE, Bench, TryingError, Verdict


def main() -> int:
    """Try the mutants; 1 where one lives."""
    told = _arguments()
    chosen = [mutant for mutant in MUTANTS if not told.only or any(word in mutant.name for word in told.only)]
    if not chosen:
        _say(f"no mutant's name holds {' or '.join(told.only)}")
        return 2
    began_s = time.monotonic()
    living = []
    try:
        for number, verdict in enumerate(_verdicts(chosen, told.jobs, whole=not told.first), start=1):
            fate = "LIVES" if verdict.killed_by is None else f"killed by {verdict.killed_by}"
            _say(f"{number}/{len(chosen)} {verdict.mutant.name}: {fate}, {verdict.seconds:.1f} s")
            if verdict.killed_by is None:
                living.append(verdict.mutant)
    except TryingError as error:
        _say(str(error))
        return 2
    _say(f"{len(chosen)} mutants, {len(living)} live, {time.monotonic() - began_s:.0f} s")
    for mutant in living:
        _say(f"\nlives: {mutant.name}\n--- {mutant.file}\n{mutant.old.rstrip()}\n+++\n{mutant.new.rstrip()}")
    return 1 if living else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="those whose names hold it")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--first", action="store_true", help="by the tests named in the catalogue alone")
    return parser.parse_args()


def _verdicts(chosen: Sequence[Mutant], jobs: int, *, whole: bool) -> Iterator[Verdict]:
    """Yield what becomes of each, as soon as that is known."""
    with ExitStack() as closing:
        benches: SimpleQueue[Bench] = SimpleQueue()
        for _ in range(jobs):
            folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True))
            bench = Bench(Path(folder).resolve())
            closing.callback(bench.close)
            benches.put(bench)
        unharmed = _Unharmed()
        first = benches.get()
        unharmed.check(first, sorted({test for mutant in chosen for test in mutant.tests}))
        benches.put(first)

        def judge(mutant: Mutant) -> Verdict:
            bench = benches.get()
            try:
                verdict = bench.judge(mutant, whole=False)
                if verdict.killed_by is None and whole:
                    unharmed.check_whole(bench)
                    verdict = bench.judge(mutant, whole=True)
                return verdict
            finally:
                benches.put(bench)

        pool = ThreadPoolExecutor(jobs)
        closing.callback(pool.shutdown, cancel_futures=True)
        for done in as_completed([pool.submit(judge, mutant) for mutant in chosen]):
            yield done.result()


class _Unharmed:
    """Sees that tests pass without a fault: else their failing says nothing."""

    def __init__(self) -> None:
        self._call = threading.Lock()
        self._whole = False

    def check(self, bench: Bench, tests: Sequence[str]) -> None:
        """Run these.

        Raises:
            TryingError: One fails.
        """
        failed = bench.fails(tests)
        if failed is not None:
            raise TryingError(f"without a fault {failed} fails: nothing can be said of any mutant")

    def check_whole(self, bench: Bench) -> None:
        """Run the fast tiers, once, before what fails in them is blamed on a mutant."""
        with self._call:
            if not self._whole:
                self.check(bench, WHOLE)
                self._whole = True


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
