"""What software takes for each message in Sailor's engine: python experiments/validation/message_time.py.

The time that makes the mean error without sign of its scored rows least; `left out` is that of each row with the time
that was fitted without it. Errors at steps of a half millisecond are interpolated.
"""

import numpy as np
import simulating
from describe import sailor
from standing import MAIN, standing
from tables import read

STEPS_MS = np.arange(0.0, 4.1, 0.5)
FINE_MS = np.arange(0.0, 4.01, 0.1)


def main() -> None:
    """Print the time, its error, and the errors of rows left out."""
    about = [(row, standing("sailor", row)) for row in read("sailor")]
    rows = [row for row, one in about if one.group == MAIN and not one.left_out]
    errors = np.empty((len(FINE_MS), len(rows)))
    for n, row in enumerate(rows):
        found = [simulating.simulate(sailor(row, host=ms * 1e-3)).seconds or np.nan for ms in STEPS_MS]
        errors[:, n] = np.interp(FINE_MS, STEPS_MS, np.array(found) / float(row["iteration_s"]) - 1)
    size = np.abs(errors)
    best = int(size.mean(axis=1).argmin())
    without = [int(np.delete(size, n, axis=1).mean(axis=1).argmin()) for n in range(len(rows))]
    left_out = np.mean([size[best_without, n] for n, best_without in enumerate(without)])
    span = f"{FINE_MS[min(without)]:.1f} to {FINE_MS[max(without)]:.1f} ms"
    print(  # noqa: T201 - a script
        f"{FINE_MS[best]:.1f} ms a message: mean error {size[best].mean():.1%} of {len(rows)} rows; "
        f"left out {left_out:.1%} ({span})"
    )


if __name__ == "__main__":
    main()
