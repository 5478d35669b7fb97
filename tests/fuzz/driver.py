"""Attack pipesim with drawn input for as long as is wanted, and say what was covered: `make fuzz`.

    python tests/fuzz/driver.py                        an hour of all campaigns on two processes
    python tests/fuzz/driver.py --minutes 5 bound      five minutes of one
    python tests/fuzz/driver.py bound --seeds 1000     a thousand seeds of it
    python tests/fuzz/driver.py bound --seed 123       one seed again, with its traceback
    python tests/fuzz/driver.py --minutes 0            what was covered and what failed so far

A campaign is a file in this folder with a function `attempt(seed) -> label` that draws something from the seed, checks
it, and returns in a few words what was covered, with "; " between several things. Whatever it raises is a failure, and
so is an attempt that takes too long (SECONDS, 120 unless the file declares another) or too much memory (6 GiB).
Campaigns share the time by their WEIGHT (1 unless declared); those that declare SEEDS go on until they have done so
many, unless --minutes is given.

What was done is kept in fuzz/state.json: the next run goes on where this one stopped, however it was stopped, and
begins with what failed. --restart forgets it. The exit code is 1 if there are failures.
"""

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import _state  # noqa: E402 - beside this file
import _worker  # noqa: E402 - as above

MINUTES = 60.0
GRACE = 60.0  # seconds beyond the limit of an attempt, for imports, and to end by itself
SAVE_EVERY, SAY_EVERY = 1.0, 60.0  # seconds
MOST_FAILURES = 50  # of a campaign; then it is not attempted further
LABELS = 80  # rows of a campaign in the table


class Worker:
    """A process that attempts one seed at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.job = None  # campaign and seed
        self.deadline = float("inf")
        self.start()

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        # A session of its own: Ctrl-C reaches the driver only, and what an attempt starts can be ended with it.
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "_worker.py"), str(self.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def ask(self, campaign: _state.Campaign, seed: int) -> None:
        self.job, self.begin = (campaign, seed), time.monotonic()
        self.deadline = self.begin + campaign.SECONDS + GRACE
        line = {"campaign": campaign.name, "seed": seed, "seconds": campaign.SECONDS}
        with contextlib.suppress(BrokenPipeError):  # that the process has ended is seen when its answer is read
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict:
        """What came of the job; that the process ended is a failure of it."""
        self.job, self.deadline = None, float("inf")
        line = self.process.stdout.readline()
        if line.endswith(b"\n"):
            return json.loads(line)
        return self._failed(f"the process ended with code {self.process.wait()}")

    def overdue(self) -> dict:
        """What is noted of a job that did not end even when it was told to."""
        self.job, self.deadline = None, float("inf")
        return self._failed("hangs where no signal is handled")

    def _failed(self, what: str) -> dict:
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace")[-_worker.CHARACTERS :]
        return {"failure": f"{what}\n{last}".strip(), "seconds": time.monotonic() - self.begin}


class Run:
    """Campaigns attempted in turn on some processes until the time is up."""

    def __init__(self, campaigns: list[_state.Campaign], path: Path, folder: Path, seconds: float):
        self.campaigns, self.path, self.folder = campaigns, path, folder
        self.records = _state.load(path)
        self.mine = [self.records.setdefault(campaign.name, _state.Record()) for campaign in campaigns]
        self.before = [(record.done, record.seconds, len(record.failures)) for record in self.mine]
        self.began = time.monotonic()
        self.ends = self.began + seconds

    def next(self) -> _state.Campaign | None:
        """The campaign that has had the least of its share in this run; none if there is nothing to do any more."""
        late, best = time.monotonic() >= self.ends, None
        for campaign, record, (_, before, failed) in zip(self.campaigns, self.mine, self.before, strict=True):
            owes = record.done + len(record.begun) < campaign.SEEDS or (record.again and campaign.SEEDS)
            hopeless = len(record.failures) >= MOST_FAILURES and not record.again
            if hopeless or (late and not owes):
                continue
            restarts = max(0, len(record.failures) - failed)  # each ends a process, and costs about a second
            spent = (record.seconds - before + restarts + len(record.begun) * record.mean()) / campaign.WEIGHT
            if best is None or spent < best[0]:
                best = spent, campaign
        return best and best[1]

    def play(self, processes: int) -> None:
        workers = [Worker(self.folder) for _ in range(processes)]
        try:
            self._play(workers)
        finally:
            for worker in workers:
                worker.stop()
            _state.save(self.records, self.path)

    def _play(self, workers: list[Worker]) -> None:
        saved = said = time.monotonic()
        while True:
            for worker in workers:
                campaign = None if worker.job else self.next()
                if campaign:
                    worker.ask(campaign, self.records[campaign.name].begin())
            if not any(worker.job for worker in workers):
                return
            self._wait(workers)
            now = time.monotonic()
            if now - saved >= SAVE_EVERY:
                saved = now
                _state.save(self.records, self.path)
            if now - said >= SAY_EVERY:
                said = now
                print(self.progress(), flush=True)

    def _wait(self, workers: list[Worker]) -> None:
        """Until one has an answer, or should have had one."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                if worker.job:
                    selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            soonest = min(worker.deadline for worker in workers)
            ready = {key.data for key, _ in selector.select(min(1.0, max(0.0, soonest - time.monotonic())))}
        for worker in workers:
            if worker in ready or time.monotonic() > worker.deadline:
                campaign, seed = worker.job
                answer = worker.answer() if worker in ready else worker.overdue()
                self.records[campaign.name].end(seed, answer)
                if "failure" in answer:
                    first = answer["failure"].splitlines()[0]
                    print(f"FAILURE {campaign.name} --seed {seed}: {first}", flush=True)
                    worker.stop()  # what a failure leaves behind must not meet the next attempt
                    worker.start()

    def progress(self) -> str:
        minutes = (time.monotonic() - self.began) / 60
        done = ", ".join(f"{c.name} {r.done}" for c, r in zip(self.campaigns, self.mine, strict=True))
        return f"{minutes:.0f} min: seeds {done}; failures {sum(len(record.failures) for record in self.mine)}"

    def report(self) -> str:
        """A table for each campaign, over all runs on this file; then every failure, and how to see it again."""
        lines = []
        for campaign, record, (done, seconds, _) in zip(self.campaigns, self.mine, self.before, strict=True):
            least = f" of {campaign.SEEDS}" if record.done < campaign.SEEDS else ""
            lines += [f"{campaign.name}: {record.done} seeds{least}, {record.seconds:.0f} s, "]
            lines[-1] += f"failures {len(record.failures)}"
            lines += [f"  in this run {record.done - done} seeds, {record.seconds - seconds:.0f} s"] * bool(done)
            if record.done:
                lines += [f"  longest {record.slowest:.1f} s (--seed {record.slowest_seed})"]
            labels = sorted(record.labels.items(), key=lambda item: (-item[1], item[0]))
            lines += [f"  {count:>9}  {label}" for label, count in labels[:LABELS]]
            rest = labels[LABELS:]
            lines += [f"  {sum(count for _, count in rest):>9}  in {len(rest)} more"] * bool(rest)
        for campaign, record in zip(self.campaigns, self.mine, strict=True):
            for seed, message in sorted(record.failures.items()):
                lines += ["", f"python tests/fuzz/driver.py {campaign.name} --seed {seed}"]
                lines += [f"    {line}" for line in message.splitlines()]
        return "\n".join(lines)

    @property
    def failed(self) -> bool:
        return any(record.failures for record in self.mine)


def chosen(folder: Path, names: list[str]) -> list[_state.Campaign]:
    known = {campaign.name: campaign for campaign in _state.discover(folder)}
    for name in names:
        if name not in known:
            sys.exit(f"no campaign is called {name!r}; there are: {', '.join(known)}")
    return [known[name] for name in names or known]


def once(campaigns: list[_state.Campaign], folder: Path, seed: int) -> None:
    """One seed of each, in this process, so that its traceback is seen whole."""
    _worker.limit_memory()
    for campaign in campaigns:
        attempt = _worker.load(folder / f"{campaign.name}.py").attempt
        print(f"{campaign.name} --seed {seed}: {_worker.attempted(attempt, seed, campaign.SECONDS)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", nargs="*", help="which; all, if none is named")
    parser.add_argument("--minutes", type=float, help=f"when to stop; {MINUTES:g}, and then what is owed, if not given")
    parser.add_argument("--seeds", type=int, help="go on until each has done so many in all runs, whatever the time")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="attempt this one only")
    parser.add_argument("--restart", action="store_true", help="forget what was done before")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the campaigns are")
    parser.add_argument("--state", type=Path, default=HERE.parents[1] / "fuzz" / "state.json", help="where to keep it")
    asked = parser.parse_args(arguments)
    campaigns = chosen(asked.folder, asked.campaigns)
    if asked.seed is not None:
        once(campaigns, asked.folder, asked.seed)
        return 0
    if asked.restart:
        asked.state.unlink(missing_ok=True)
    minutes = MINUTES if asked.minutes is None else asked.minutes
    if asked.seeds is not None:
        minutes, campaigns = 0.0, [replace(campaign, SEEDS=asked.seeds) for campaign in campaigns]
    elif asked.minutes is not None:
        campaigns = [replace(campaign, SEEDS=0) for campaign in campaigns]
    run = Run(campaigns, asked.state, asked.folder, 60 * minutes)
    try:
        run.play(asked.processes)
    except KeyboardInterrupt:
        print(f"{run.report()}\ninterrupted; the next run goes on from here")
        return 130
    print(run.report())
    return int(run.failed)


if __name__ == "__main__":
    sys.exit(main())
