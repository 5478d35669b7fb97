"""What a fuzz run knows of its campaigns, and keeps in a file from one run to the next.

discover(folder)     the campaigns: files that define `attempt`, with their WEIGHT, SEEDS and SECONDS
Record               of one campaign: the next seed, those begun and not ended, seconds, labels, failures
load, save           all records, as JSON; written whole or not at all
"""

import ast
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Campaign:
    """A file with `attempt(seed) -> label`, and what it declares about itself."""

    name: str
    WEIGHT: float = 1.0  # its share of the time, beside the others'
    SEEDS: int = 0  # so many are to be done at least
    SECONDS: float = 120.0  # an attempt that takes longer is a failure


def discover(folder: Path) -> list[Campaign]:
    """All campaigns in a folder, by name. They are not imported: that takes seconds, and one may be broken."""
    found = []
    for path in sorted(folder.glob("[!_]*.py")):
        body = ast.parse(path.read_text()).body
        if any(isinstance(item, ast.FunctionDef) and item.name == "attempt" for item in body):
            found.append(Campaign(path.stem, **_declared(body)))
    return found


def _declared(body: list[ast.stmt]) -> dict[str, float]:
    """Numbers that are assigned to the names that a campaign may declare."""
    known = {"WEIGHT", "SEEDS", "SECONDS"}
    assigned = [item for item in body if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)]
    return {item.targets[0].id: ast.literal_eval(item.value) for item in assigned if item.targets[0].id in known}


@dataclass
class Record:
    """What is known of one campaign, over all runs on this file."""

    next: int = 0  # no seed from here on was begun
    again: list[int] = field(default_factory=list)  # begun and not ended, or failed, in a former run: these come first
    begun: list[int] = field(default_factory=list)  # in work when the file was written
    done: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_seed: int = -1
    labels: Counter = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def begin(self) -> int:
        """The seed to be attempted next."""
        if self.again:
            seed = self.again.pop(0)
        else:
            seed, self.next = self.next, self.next + 1
        self.begun.append(seed)
        return seed

    def resume(self) -> None:
        """What an interruption cut off is done again, and so is what failed: it may be repaired by now."""
        self.again = sorted({*self.again, *self.begun, *self.failures})
        self.begun = []

    def end(self, seed: int, answer: dict) -> None:
        """Keep what came of a seed."""
        self.begun.remove(seed)
        self.done += 0 if self.failures.pop(seed, None) else 1
        self.seconds += answer["seconds"]
        if answer["seconds"] > self.slowest:
            self.slowest, self.slowest_seed = answer["seconds"], seed
        if "failure" in answer:
            self.failures[seed] = answer["failure"]
        else:
            self.labels.update(answer["label"].split("; "))

    def mean(self) -> float:
        """Seconds of one attempt, as far as is known."""
        return self.seconds / self.done if self.done else 0.1


def load(path: Path) -> dict[str, Record]:
    """All records in a file, by campaign, ready to go on; none if there is no file."""
    if not path.exists():
        return {}
    found = {}
    for name, kept in json.loads(path.read_text())["campaigns"].items():
        failures = {int(seed): message for seed, message in kept.pop("failures").items()}
        found[name] = Record(**kept | {"labels": Counter(kept["labels"]), "failures": failures})
        found[name].resume()
    return found


def save(records: dict[str, Record], path: Path) -> None:
    """Write beside it, then take its place: an interruption leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps({"campaigns": {name: vars(kept) for name, kept in records.items()}}, indent=1))
    beside.replace(path)
