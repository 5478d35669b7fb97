"""Measure two commits side by side in one run: `make bench-compare REV=main~10`.

The commit is checked out into a temporary folder. Both sides are processes of this machine that measure the same case
in turn, now the one first, now the other; what is compared is the CPU time of neighbours. For each case: medians of
both, the median of new / old over the pairs, and between which values the middle half of the pairs is (the noise). A
case looks slower if the median is above 1.05 and three quarters of the pairs are above 1. Where memory was placed makes
one process differ from the next, so what does not look the same is measured again in two more pairs of processes, and
counts as slower (or faster) only if it is in all of them; otherwise it is "not sure". Exit code 1 if a case is slower.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from compared import CASES

ROOT = Path(__file__).resolve().parents[1]
NOTABLE = 1.05
ROUNDS = 7
AGAIN = 2  # more pairs of processes for what does not look the same


class Side(Protocol):
    """One of the two commits: it answers requests of `compared.main`."""

    def ask(self, name: str, calls: int) -> dict[str, Any]:
        """Prepare a case (0 calls), or measure so many calls of it."""


class Process:
    """A side in a process of its own."""

    def __init__(self, tree: Path) -> None:
        path = os.pathsep.join([str(tree), str(ROOT / "benchmarks")])
        # Kernels are found by contents, so both sides can have one cache, which outlives the temporary folder.
        cache = str(ROOT / "build" / "kernels")
        more = {"PYTHONPATH": path, "NUMBA_CACHE_DIR": cache, "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "compared.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | more, cwd=tree,
        )  # fmt: skip

    def ask(self, name: str, calls: int) -> dict[str, Any]:
        """As `Side.ask`."""
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101 - as above
        self._process.stdin.write(f"{name} {calls}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"the process ended with code {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process, which may have ended."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


class Compared(NamedTuple):
    """Seconds of CPU of a case on both sides, in pairs measured one after the other."""

    name: str
    pairs: tuple[tuple[float, float], ...]  # (old, new)
    error: str = ""  # why there are none
    confirmed: bool = True  # whether all pairs of processes came to this

    @property
    def ratio(self) -> float:
        """The median of new / old."""
        return statistics.median(self._ratios)

    @property
    def noise(self) -> tuple[float, float]:
        """Between which ratios the middle half of the pairs is."""
        low, _, high = statistics.quantiles(self._ratios, n=4, method="inclusive")
        return low, high

    @property
    def verdict(self) -> str:
        """Whether the new side is slower or faster by more than 5 %."""
        if self.error:
            return "not measured"
        (low, high), ratio = self.noise, self.ratio
        if 1 / NOTABLE <= ratio <= NOTABLE:
            return "same"
        sure = self.confirmed and (low > 1 or high < 1)
        return ("slower" if ratio > 1 else "faster") if sure else "not sure"

    @property
    def _ratios(self) -> list[float]:
        return [new / old for old, new in self.pairs]

    def line(self) -> str:
        """A row of the table."""
        if self.error:
            return f"| {self.name} | {self.error} | | | not measured |"
        old, new = (_shown(statistics.median(column)) for column in zip(*self.pairs, strict=True))
        low, high = self.noise
        return f"| {self.name} | {old} | {new} | {self.ratio:.2f} ({low:.2f} to {high:.2f}) | {self.verdict} |"


def merged(found: Sequence[Compared]) -> Compared:
    """One case from several pairs of processes: sure of what all of them came to."""
    failed = next((one for one in found if one.error), None)
    if failed is not None:
        return failed
    pairs = tuple(pair for one in found for pair in one.pairs)
    return Compared(found[0].name, pairs, confirmed=len({one.verdict for one in found}) == 1)


def _shown(value: float) -> str:
    """Seconds in a unit that suits them."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def compare(name: str, old: Side, new: Side, rounds: int) -> Compared:
    """Measure a case on both sides in turn; the one that was first is second in the next round."""
    first = [(side, side.ask(name, 0)) for side in (old, new)]
    for side, answer in first:
        if "error" in answer:
            return Compared(name, (), f"{'old' if side is old else 'new'}: {answer['error']}".replace("|", "/")[:200])
    calls = max(answer["calls"] for _, answer in first)
    pairs = []
    for number in range(rounds):
        took = {}
        for side in (old, new) if number % 2 == 0 else (new, old):
            answer = side.ask(name, calls)
            if "error" in answer:
                return Compared(name, (), answer["error"])
            took[id(side)] = float(answer["seconds"])
        pairs.append((took[id(old)], took[id(new)]))
    return Compared(name, tuple(pairs))


def chosen(text: str) -> list[str]:
    """The cases whose names contain this text."""
    found = [name for name in CASES if text in name]
    if not found:
        raise SystemExit(f"no case contains {text!r}; there are: " + "; ".join(CASES))
    return found


@contextlib.contextmanager
def checked_out(rev: str) -> Iterator[Path]:
    """A folder with a commit's files."""
    with tempfile.TemporaryDirectory(prefix="pipesim-compare-") as name:
        tree = Path(name) / "old"
        done = subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(tree), rev],  # noqa: S607 - as in the shell
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"REV = {rev!r} found; a commit was expected: {done.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)  # noqa: S607


def report(found: Sequence[Compared]) -> str:
    """What is slower, and by how much."""
    slower = [one for one in found if one.verdict == "slower"]
    unsure = sum(one.verdict == "not sure" for one in found)
    lines = [f"slower by more than 5 %: {len(slower)} of {len(found)} cases"]
    lines += [f"  {one.name}: {one.ratio:.2f} times" for one in slower]
    if unsure:
        lines.append(f"not sure: {unsure}; measure them again with more rounds (ROUNDS=21 ONLY=...)")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of all cases as they are measured, then what is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rev", help="the commit to compare with: a hash, main~10, a tag")
    parser.add_argument("--only", default="", help="only cases whose names contain this")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"pairs of measurements per case (default {ROUNDS})")
    given = parser.parse_args(arguments)
    if given.rounds < 2:
        parser.error(f"--rounds: {given.rounds} found; 2 or more was expected")
    names = chosen(given.only)
    found = []
    with checked_out(given.rev) as tree, contextlib.ExitStack() as stack:

        def started() -> list[Process]:
            return [stack.enter_context(contextlib.closing(Process(place))) for place in (tree, ROOT)]

        sides = started()
        print(f"CPU time of one call; new is this checkout, old is {given.rev}; {given.rounds} pairs per case.\n")
        print("| what | old | new | new / old (middle half) | |\n|---|---|---|---|---|", flush=True)
        for name in names:
            tries = [compare(name, *sides, given.rounds)]
            while tries[-1].verdict not in {"same", "not measured"} and len(tries) <= AGAIN:
                for side in sides:
                    side.close()
                sides = started()
                tries.append(compare(name, *sides, given.rounds))
            found.append(merged(tries))
            print(found[-1].line(), flush=True)
    print("\n" + report(found))
    return int(any(one.verdict == "slower" for one in found))


if __name__ == "__main__":
    sys.exit(main())
