"""Replay the recordings that are kept here: python experiments/replay/run.py writes expected.csv again."""

from pathlib import Path

from pipesim.base import files
from pipesim.importers.kineto.pipelined import recording
from pipesim.studies import rebuilding, sweep

HERE = Path(__file__).parent
RUNS = ("1f1b", "gpipe", "cut4")  # folders of `recorded`
ITERATIONS = 3
COLUMNS = ["run", "iteration", "rank", "phase", "recorded_s", "replayed_s"]


def rows() -> list[tuple[str, int, int | str, str, float, float]]:
    """Seconds of each rank and phase, and of the iteration as a whole, of all recorded iterations."""
    made: list[tuple[str, int, int | str, str, float, float]] = []
    for run in RUNS:
        for number in range(ITERATIONS):
            found = rebuilding.comparison(rebuilding.rebuilt(recording(HERE / "recorded" / run, number=number)))
            made.append((run, number, "all", "iteration", found["recorded_s"], found["replayed_s"]))
            made += [
                (run, number, rank["rank"], phase, rank["recorded_s"][phase], rank["replayed_s"][phase])
                for rank in found["ranks"]
                for phase in rebuilding.PHASES
                if phase != "weight"
            ]
    return made


if __name__ == "__main__":
    files.write_text(HERE / "expected.csv", sweep.csv_text(COLUMNS, rows()))
