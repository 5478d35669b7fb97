"""Sweeps on a machine that fails: killed, out of space, its files torn, its clock turned, its workers slow and dying.

Everything happens in one thread and in an order that the seed draws. SQLite is the real one; what is simulated is what
it stands on, and who computes:

    step        a statement of SQLite, a chunk handed out, or a wait for workers
    kill        the files as they are at this step are what the next run finds: what SQLite has not written is gone
    torn        as kill, in the middle of a commit or of the checkpoint at the end: some bytes are new and some old
    full, io    SQLite has no page left, or is told so by the system
    workers     finish in any order, hand points back, are silent, die, cannot be started; or all of them are gone
    clock       goes back or ahead by hours
    other       another sweep runs on the same file meanwhile: the same one, another one, or another one of this name
    bit, power  between two runs a bit flips, or the end of SQLite's log is lost

After every fault the sweep is run again, in the end without any, and must come to the rows of an undisturbed run.
"""

import contextlib
import math
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from pipesim.base.errors import InputError
from pipesim.studies import sweep as sweeps
from pipesim.studies.store import Clock, Store
from pipesim.studies.sweep import Sweep, System
from pipesim.studies.sweep.worker import Outcome, WorkerConfig
from pipesim.studies.sweep.workers import Chunk, Crew, NotStartedError

DIED = "the worker died"
STATEMENT = ("kill", "torn", "full", "no page", "io", "locked")
CREW = ("kill", "die", "die alone", "not started", "never started", "gone", "silent", "other", "same", "replaced")
REST = ("bit", "power", "")
# What a sweep cannot go on from by itself; whatever else happens, it ends with all points.
REFUSED = frozenset({"full", "no page", "io", "locked", "never started", "gone", "replaced"})
DEADLY = frozenset({"die", "die alone"})
METRICS = ("iteration_time_s", "tasks", "fits_memory", "plan_replicas", "bound_s")

SEEDS = 10_000  # as many in the hour at least


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


class KilledWorker(Exception):  # noqa: N818 - the name by which it is known in dask
    """What dask says of a chunk whose workers died."""


class World:
    """A folder, a clock, and a fault that happens at one step."""

    def __init__(self, rng: random.Random, folder: Path, text: str) -> None:
        self.rng, self.folder = rng, folder
        self.path = folder / "e.toml"
        self.text = text
        self.store = folder / "e.sqlite"
        self.steps, self.fault, self.at = 0, "", -1
        self.time, self.monotonic = 1e9, 0.0
        self.image: dict[str, bytes] = {}  # what the next run finds, if this one was killed
        self.reported = 0  # results that were said to be there
        self.there: set[bytes] = set()  # keys whose results need not be computed again
        self.handled = False  # whether the fault happened
        self.told: list[str] = []
        self.changed = False  # whether the files were changed while nobody used them

    @cached_property
    def sweep(self) -> Sweep:
        return sweeps.parse(self.text, self.path)

    @cached_property
    def keys(self) -> list[bytes]:
        return [key for _, key in sweeps.read(self.sweep)[1]]

    def due(self, *faults: str) -> bool:
        """Whether it is now that one of these happens."""
        if self.handled or self.steps < self.at or self.fault not in faults:
            return False
        self.handled = True
        return True

    def files(self) -> dict[str, bytes]:
        """The file and its log as a kill would leave them: memory that processes share is gone."""
        places = [self.store, Path(f"{self.store}-wal")]
        return {str(place): place.read_bytes() for place in places if place.exists()}

    def put_back(self, image: dict[str, bytes]) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.store}{suffix}").unlink(missing_ok=True)
        for name, data in image.items():
            Path(name).write_bytes(data)

    def die(self, image: dict[str, bytes]) -> None:
        self.image = image
        raise Killed

    def mixed(self, old: dict[str, bytes], new: dict[str, bytes], size: int) -> dict[str, bytes]:
        """Files of which some pieces of this size were written and some were not; in a log, those in front were."""
        found = {}
        for name in old.keys() | new.keys():
            before, after = old.get(name, b""), new.get(name, b"")
            if name.endswith("-wal"):
                cut = self.rng.randint(0, max(len(before), len(after)))
                found[name] = after[:cut] + before[cut:]
                continue
            pieces = range(0, max(len(before), len(after)), size)
            found[name] = b"".join((after if self.rng.random() < 0.5 else before)[i : i + size] for i in pieces)
        return found

    # --- what the sweep takes for its machine ------------------------------------------------------------------------

    def clock(self) -> Clock:
        def tick() -> float:
            self.monotonic += 0.001
            return self.monotonic

        return Clock(now=lambda: self.time + self.monotonic, monotonic=tick, sleep=lambda _: None)

    def connect(self, path: Any, **more: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(path, factory=_Connection, **more)
        connection.world = self
        return connection

    def system(self) -> System:
        return System(self.clock(), self.connect, self.crew)

    @contextmanager
    def crew(self, order: WorkerConfig, count: int) -> Iterator[Crew]:
        workers = _Workers(self, order, count)
        yield Crew(workers.count, workers.submit, workers.remake, workers.wait)


class _Connection(sqlite3.Connection):
    """A connection to the real SQLite, whose statements are steps."""

    world: World

    def execute(self, query: str, values: Any = ()) -> sqlite3.Cursor:  # type: ignore[override]
        world = self.world
        world.steps += 1
        if query.startswith("PRAGMA synchronous"):
            query = "PRAGMA synchronous = OFF"  # it is the process that ends and not the system: no need to wait
        if world.due("kill"):
            world.die(world.files())
        if world.due("io"):
            raise sqlite3.OperationalError("disk I/O error")
        if world.due("locked"):
            raise sqlite3.OperationalError("database is locked")
        if query in {"COMMIT", "BEGIN IMMEDIATE"} and world.due("full"):
            raise sqlite3.OperationalError("database or disk is full")
        if query == "BEGIN IMMEDIATE" and world.due("no page"):
            (pages,) = super().execute("PRAGMA page_count").fetchone()
            super().execute(f"PRAGMA max_page_count = {max(1, pages)}")
        if query == "COMMIT" and world.due("torn"):
            before = world.files()
            super().execute(query, values)
            world.die(world.mixed(before, world.files(), 4096))
        return super().execute(query, values)

    def close(self) -> None:
        if self.world.due("torn") and not self.world.image:
            before = self.world.files()
            super().close()
            after = self.world.files()
            log = {name: data for name, data in before.items() if name.endswith("-wal")}
            self.world.die({**self.world.mixed(before, after, 4096), **log})
        super().close()


class _Workers:
    """Workers of whom the world decides who is done, and how."""

    def __init__(self, world: World, order: WorkerConfig, count: int) -> None:
        self.world, self.order, self.number = world, order, count
        self.chunks: dict[Future[list[Outcome]], Chunk] = {}
        self.silences = 0
        self.unstarted = 0

    def count(self) -> int:
        return 0 if self.silences else self.number

    def remake(self) -> None:
        self.chunks.clear()

    def submit(self, chunk: Chunk) -> Future[list[Outcome]]:
        world = self.world
        world.steps += 1
        again = world.there & {key for key, _ in chunk}
        assert not again, f"computed again, though they are in the store: {again}"
        future: Future[list[Outcome]] = Future()
        if world.due("kill"):
            world.die(world.files())
        if world.due("not started"):
            self.unstarted = 1
        if world.due("never started"):
            self.unstarted = 99
        if self.unstarted:
            self.unstarted -= 1
            future.set_exception(NotStartedError("EOFError"))
        self.chunks[future] = chunk
        return future

    def wait(self, waiting: Iterable[Future[list[Outcome]]], seconds: float) -> set[Future[list[Outcome]]]:
        world, waiting = self.world, list(waiting)
        world.steps += 1
        assert all(future in self.chunks for future in waiting), "waits for what nobody works on"
        if self.silences or world.due("silent"):
            self.silences = self.silences - 1 if self.silences else world.rng.randint(1, 3)
            world.monotonic += seconds
            return set()
        self._fail(waiting)
        done = {future for future in waiting if future.done()}
        if not done:
            chosen = world.rng.sample(waiting, world.rng.randint(1, len(waiting)))
            for future in chosen:
                chunk = self.chunks[future]
                some = chunk[: world.rng.randint(1, len(chunk))]
                slow = world.rng.choice([1e-4, 0.01, 10.0])
                future.set_result([outcome_of(key, self.order, slow) for key, _ in some])
            done = set(chosen)
        for future in done:
            del self.chunks[future]
        world.monotonic += world.rng.choice([0.0, 0.01, 60.0])
        return done

    def _fail(self, waiting: list[Future[list[Outcome]]]) -> None:
        """Let happen to workers what is to happen to them now."""
        world = self.world
        free = [future for future in waiting if not future.done()]
        if world.due("kill"):
            world.die(world.files())
        if world.due("gone"):
            free[0].set_exception(CancelledError())
        if world.due("die"):
            for future in free:
                future.set_exception(BrokenExecutor("a worker died"))
        if world.due("die alone"):
            free[0].set_exception(KilledWorker())
            world.at, world.handled = world.steps + world.rng.randint(1, 3), world.rng.random() < 0.5
        for fault in ("other", "same", "replaced"):
            if world.due(fault):
                meanwhile(world, fault)


def outcome_of(key: bytes, order: WorkerConfig, seconds: float) -> Outcome:
    """What comes of a point: numbers that its key draws, or a failure."""
    rng = random.Random(key)
    if rng.random() < 0.1:
        return Outcome(key, [], f"failed at {key[0]}", refused=False, engine="event", seconds=seconds)
    values = [value_of(random.Random(key + name.encode())) for name in order.metrics]
    return Outcome(key, values, None, refused=False, engine="event", seconds=seconds)


def value_of(rng: random.Random) -> Any:
    """A metric of any kind that a store keeps."""
    return rng.choice([rng.random() * 1e-3, rng.randint(0, 2**53), rng.random() < 0.5, "2x4", None, math.nan, -0.0])


def meanwhile(world: World, what: str) -> None:
    """Another sweep on the same file, begun and ended while this one waits."""
    text = {
        "same": world.text,
        "other": world.text.replace('name = "e"', 'name = "other"').partition("metrics =")[0]
        + f'metrics = ["{random.Random(world.steps).choice(METRICS)}"]',
        "replaced": grid_text(random.Random(world.steps), name="e", extra=17),
    }[what]
    there, world.there = world.there, set()
    fault, world.fault = world.fault, ""
    steps = world.steps
    other = sweeps.parse(text, world.path)
    sweeps.run(other, store=world.store, workers=1, system=world.system())
    world.there, world.fault, world.steps = there, fault, steps


def grid_text(rng: random.Random, name: str = "e", extra: int = 0) -> str:
    """A small experiment; some of its points may be equal to each other."""
    gpus = rng.sample(range(1, 9), rng.randint(1, 4))
    counts: list[Any] = [*rng.sample(range(1, 9), rng.randint(1, 5)), *([extra] if extra else [])]
    if rng.random() < 0.3:
        counts.append("{2 * gpus}")
    metrics = rng.sample(METRICS, rng.randint(1, 4))
    where = '\nwhere = "gpus != 3 or microbatches != 2"' if rng.random() < 0.3 and len(gpus) > 1 else ""
    quote = [f'"{c}"' if isinstance(c, str) else str(c) for c in counts]
    return f"""format = "pipesim.sweep"
version = 1
name = "{name}"
[simulate]
architecture = "gpt(2, 64, 2, sequence=16)"
cluster = 'flat({{gpus}}, bandwidth="1GB/s")'
[grid]
gpus = {gpus}
microbatches = [{", ".join(quote)}]{where}
[output]
metrics = [{", ".join(f'"{m}"' for m in metrics)}]
"""


# --- one attempt -----------------------------------------------------------------------------------------------------


def attempt(seed: int) -> str:
    """Disturb a sweep some times, and hold what it comes to against the same sweep left alone."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        world = World(rng, Path(name), grid_text(rng))
        calm, steps = undisturbed(world)
        covered = []
        for _ in range(rng.randint(1, 4)):
            world.fault = rng.choice([*STATEMENT, *CREW])
            world.at = int(steps * rng.random() ** 2)  # early ones more often: a run that goes on is shorter
            if rng.random() < 0.3:
                world.time += rng.choice([-1e9, -3600.0, 3600.0, 1e9])
            ended = disturbed(world)
            covered.append(f"{world.fault}: {ended}" if world.handled else f"{world.fault}: not met")
            covered += at_rest(world, calm, rng.choice(REST))
        world.fault = ""
        finished(world, calm)
        return "; ".join(sorted(set(covered)))


def undisturbed(world: World) -> tuple[str, int]:
    """The rows of a sweep that nothing happens to, and how many steps it takes; nothing of it stays."""
    status = sweeps.run(world.sweep, workers=2, system=world.system())
    assert (status.left, status.total) == (0, status.done)
    rows = rows_of(world)
    steps, world.steps = world.steps, 0
    world.put_back({})
    return rows, steps


def rows_of(world: World) -> str:
    with Store.open(world.store) as results:
        return sweeps.csv_text(*results.rows("e"))


def disturbed(world: World, *, retry: bool = False) -> str:
    """One run that a fault may end; says how it ended, and checks what it left."""
    world.steps, world.handled, world.image, world.reported, world.told = 0, False, {}, 0, []
    world.there = set() if retry else keys_there(world)
    died = died_of(world)
    ended, refusal = "done", "-"
    try:
        sweeps.run(
            world.sweep, workers=world.rng.randint(1, 4), retry=retry, system=world.system(), tell=world.told.append,
            watch=lambda progress: watched(world, progress),
        )  # fmt: skip
    except Killed:
        ended = "killed"
    except InputError as error:
        ended, refusal = "refused", str(error)
    assert ended != "refused" or world.fault in REFUSED or world.changed, f"refused after {world.fault}: {refusal}"
    assert refusal.strip(), "an error without a word"
    assert "\n" not in refusal, f"an error of several lines: {refusal}"
    if world.image:
        world.put_back(world.image)
    if ended == "done":
        check_done(world, died)
    if world.reported:
        with contextlib.suppress(Gone):
            check_kept(world)
    return ended


class Gone(Exception):  # noqa: N818 - no error: another sweep has the name now
    """The points that are listed are not those of this sweep."""


def watched(world: World, progress: sweeps.Progress) -> None:
    assert 0 <= progress.done <= progress.total, f"{progress.done} of {progress.total} done"
    assert progress.done >= world.reported or world.fault in {"same", "replaced"}, "goes backwards"
    world.reported = progress.done


def check_done(world: World, died: int) -> None:
    """What ended well has all points, lists its own, and blames no point for a worker that did not die."""
    with Store.open(world.store) as results:
        assert not results.status("e").left, "ended well, with points left"
        assert results.experiment("e").text == world.text, "ended well, with the points of another"
    assert world.changed or world.fault in DEADLY or died_of(world) <= died, (
        "a point is blamed for a death that did not happen"
    )


def died_of(world: World) -> int:
    """How many points have failed because a worker died."""
    if not world.store.exists():
        return 0
    with contextlib.suppress(InputError), Store.open(world.store) as results:
        return len(results.rows("e", f"error like '{DIED}%'")[1])
    return 0


def check_kept(world: World) -> None:
    """Nothing that was said to be there is lost."""
    with Store.open(world.store) as results:
        if results.experiment("e").text != world.text:
            raise Gone
        done = results.status("e").done
    assert done >= world.reported, f"{world.reported} results were said to be there, and {done} are"


def keys_there(world: World) -> set[bytes]:
    """Keys that have a result with all metrics, as the file says before the run."""
    if not world.store.exists():
        return set()
    try:
        with Store.open(world.store) as results:
            if results.check().found:
                return set()
            return results.done_of(world.keys, world.sweep.columns)
    except InputError:  # killed before there was a table
        return set()


def at_rest(world: World, calm: str, what: str) -> list[str]:
    """What happens to the files while nobody uses them."""
    image = world.files()
    if not what or not image or (what == "power" and str(world.store) + "-wal" not in image):
        return []
    name = world.rng.choice(sorted(image)) if what == "bit" else str(world.store) + "-wal"
    data = bytearray(image[name])
    if not data:
        return []
    world.changed = True
    if what == "bit":
        data[place_of(world, data)] ^= 1 << world.rng.randrange(8)
    else:
        del data[world.rng.randrange(len(data)) :]
    world.put_back({**image, name: bytes(data)})
    return [f"{what}: {believed(world, calm)}"]


def place_of(world: World, data: bytearray) -> int:
    """Where a bit flips: anywhere, in the head of a page, or in a row behind its key."""
    heads = world.rng.randrange(0, len(data), 4096) + world.rng.randrange(12)
    keys = set(world.keys)
    rows = [place for place in range(len(data)) if bytes(data[place : place + 16]) in keys]  # in tables and indexes
    behind = world.rng.choice(rows or [0]) + 16 + world.rng.randrange(100)
    return min(world.rng.choice([world.rng.randrange(len(data)), heads, behind]), len(data) - 1)


def believed(world: World, calm: str) -> str:
    """What is read of changed files: rows of the undisturbed run, or a refusal."""
    try:
        found = rows_of(world)
    except InputError:
        return "refused"
    header, *lines = found.splitlines()
    right = calm.splitlines()
    with Store.open(world.store) as results:
        if results.experiment("e").text != world.text:
            return "another grid"
    assert header == right[0], "other columns"
    wrong = set(lines) - set(right)
    assert all(DIED in line for line in wrong), f"a row of no undisturbed run: {wrong}"
    return "read"


def finished(world: World, calm: str) -> None:
    """Run without faults until all is done; a file that is refused is moved away, as the message says."""
    for _ in range(3):
        ended = disturbed(world, retry=False)
        if ended == "refused":
            shutil.move(world.store, world.folder / "damaged")
            world.put_back({})
            world.changed = False
            continue
        disturbed(world, retry=True)  # workers that died left failures
        break
    assert rows_of(world) == calm, "other rows than those of an undisturbed run"
    with Store.open(world.store) as results:
        assert not results.check().found
