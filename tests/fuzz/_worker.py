"""One process of the fuzz driver: it is asked for campaign and seed in a line, and answers in a line.

    python tests/fuzz/_worker.py FOLDER         {"campaign": "bound", "seed": 3, "seconds": 120}
                                                {"label": "fair: within 1 %", "seconds": 0.04}
                                                {"failure": "AssertionError: ...", "seconds": 0.04}

An attempt has a limit of time, so that a hang is a finding, and one of memory, so that it does not bring down the
machine. A process that neither limit stops (it hangs in compiled code, it crashes) is dealt with by the driver.
"""

import faulthandler
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

MEMORY = 6 * 2**30  # bytes of address space of a process
FRAMES, CHARACTERS = 4, 3000  # what is kept of a failure


class TooLongError(BaseException):
    """An attempt took longer than it may; no `except Exception` in what is tested may swallow it."""


def load(path: Path):
    """The campaign in this file; what it imports is looked for in tests/ too."""
    tests = str(Path(__file__).resolve().parents[1])
    if tests not in sys.path:
        sys.path.insert(0, tests)
    spec = importlib.util.spec_from_file_location(f"fuzz_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def limit_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most))


def attempted(attempt, seed: int, seconds: float) -> str:
    """The label that an attempt returns, unless it takes longer than this."""

    def stop(*_):
        raise TooLongError(f"not done after {seconds:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return str(attempt(seed))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def outcome(attempt, seed: int, seconds: float) -> dict:
    """What came of an attempt, and how long it took."""
    begin = time.perf_counter()
    try:
        found = {"label": attempted(attempt, seed, seconds)}
    except BaseException as error:  # noqa: BLE001 - whatever an attempt raises is a finding, SystemExit included
        found = {"failure": described(error)}
    return found | {"seconds": time.perf_counter() - begin}


def described(error: BaseException) -> str:
    """The message first, cut if it is long, then the last places that it came through."""
    message = f"{type(error).__name__}: {error}"
    if len(message) > CHARACTERS:
        message = f"{message[:CHARACTERS]} ... ({len(message)} characters)"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__][-FRAMES:]
    return "\n".join([message, *(f"  {Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames)])


def main(folder: str) -> None:
    """Answer line by line until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what attempts print is no answer
    faulthandler.enable()
    limit_memory()
    loaded = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["campaign"]
        try:
            module = loaded.setdefault(name, loaded.get(name) or load(Path(folder) / f"{name}.py"))
        except Exception as error:  # noqa: BLE001 - a campaign that cannot be imported fails at each seed
            answer = {"failure": f"cannot be imported: {described(error)}", "seconds": 0.0}
        else:
            answer = outcome(module.attempt, asked["seed"], asked["seconds"])
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
