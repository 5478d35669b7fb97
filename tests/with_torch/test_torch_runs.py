"""Schedules that pipesim writes train a model on two real processes; its gradients are those of no pipeline at all."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipesim.cli import main
from pipesim.core.schedule import Schedule
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

torch = pytest.importorskip(
    "torch.distributed.pipelining.schedules",
    reason="PyTorch is not installed, or without torch.distributed: pip install 'pipesim[torch]'",
    exc_type=ImportError,
).torch
if not torch.distributed.is_gloo_available():
    pytest.skip("this PyTorch was built without gloo", allow_module_level=True)

SCRIPT = Path(__file__).with_name("pipeline_process.py")
RANKS, MICROBATCHES = 2, 5
PATIENCE = 45.0  # seconds, to load PyTorch and for all runs; a message that does not come is given up after 20
# In double precision all that differs is the order in which the gradients of the microbatches are added up.
RELATIVE, ABSOLUTE = 1e-10, 1e-14

# Name of a scheduler -> stages on two ranks.
RUN = {
    "gpipe": 2,
    "one_f_one_b": 2,
    "zb_h1": 2,
    "zb_2p": 2,
    "interleaved(chunks=2)": 4,
    "interleaved(chunks=3)": 6,
    "looped_bfs": 4,
    "interleaved_zb": 4,
    "hanayo(waves=2)": 8,
    "zb_v": 4,
    "v_half": 4,
    "v_min": 4,
    "dualpipe_v": 4,
}
FORMS = {"compute_only": [], "compute_comms": ["--messages"]}
CASES = [f"{scheduler} {form}" for scheduler in RUN for form in FORMS]
UNREDUCED = "one_f_one_b without REDUCE_GRAD"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have run all cases."""
    folder = tmp_path_factory.mktemp("runs")
    cases = [written(folder, *case.split(" ")) for case in CASES]
    plain = Path(folder / "one_f_one_b compute_comms.csv").read_text(encoding="utf-8")
    (folder / f"{UNREDUCED}.csv").write_text(plain.replace(",0REDUCE_GRAD", "").replace(",1REDUCE_GRAD", ""), "utf-8")
    bare = {"name": UNREDUCED, "form": "compute_comms", "stages": 2, "held": [[0], [1]], "microbatches": MICROBATCHES}
    (folder / "cases.json").write_text(json.dumps([*cases, bare]), "utf-8")
    run_all(folder)
    return folder


def written(folder, scheduler, form):
    """A case whose file `pipesim schedule` writes."""
    name = f"{scheduler} {form}"
    options = ["--stages", str(RANKS), "-m", str(MICROBATCHES), "-o", str(folder / f"{name}.csv"), *FORMS[form]]
    main(["schedule", scheduler, "--json", *options])
    held = equal_stages.setup(scheduler, RANKS, MICROBATCHES, Times()).plan.chunks
    return {"name": name, "form": form, "stages": RUN[scheduler], "held": held, "microbatches": MICROBATCHES}


def run_all(folder, script=SCRIPT):
    """Start the processes; end them all when one fails or time is up."""
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    logs = [folder / f"{rank}.log" for rank in range(RANKS)]
    started = []
    try:
        for rank, log in enumerate(logs):
            command = [sys.executable, str(script), str(rank), str(RANKS), str(folder)]
            with log.open("w") as stream:
                started.append(subprocess.Popen(command, stdout=stream, stderr=stream, env=environment))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and {process.poll() for process in started} <= {None, 0}:
            if all(process.poll() == 0 for process in started):
                return
            time.sleep(0.05)
    finally:
        for process in started:
            process.kill()
            process.wait()
    said = "\n".join(log.read_text()[-3000:] for log in logs)
    pytest.fail(f"exit codes {[process.returncode for process in started]} (-9: ended after {PATIENCE} s)\n{said}")


def came_out(folder, name):
    """Gradients and losses of a case, of all ranks together."""
    parts = [torch.load(folder / f"{name}.{rank}.pt") for rank in range(RANKS)]
    return {key: value for part in parts for key, value in part["gradients"].items()}, parts


def expected(stages):
    """Gradients and losses of the same model in one piece, the whole batch at once."""
    from with_torch import pipeline_process

    model = [pipeline_process.stage(n) for n in range(stages)]
    inputs, targets = pipeline_process.batch(MICROBATCHES)
    outputs = torch.nn.Sequential(*model)(inputs)
    torch.nn.functional.mse_loss(outputs, targets).backward()
    gradients = {f"{n}.{name}": value.grad for n, one in enumerate(model) for name, value in one.named_parameters()}
    pairs = zip(outputs.detach().chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True)
    return gradients, [torch.nn.functional.mse_loss(*pair) for pair in pairs]


def assert_near(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=RELATIVE, atol=ABSOLUTE)


@pytest.mark.parametrize("case", CASES)
def test_gradients_and_losses_are_those_of_the_model_in_one_piece(folder, case):
    scheduler = case.split(" ")[0]
    gradients, parts = came_out(folder, case)
    wanted, losses = expected(RUN[scheduler])
    assert gradients.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert gradient.abs().max() > 1e-6
        assert_near(gradients[name], gradient)
    last = equal_stages.setup(scheduler, RANKS, MICROBATCHES, Times()).plan.stages[-1].devices
    assert [len(part["losses"]) for part in parts] == [MICROBATCHES * (f"rank{rank}" in last) for rank in range(RANKS)]
    assert_near([loss for part in parts for loss in part["losses"]], losses)


def test_without_the_cell_that_reduces_them_gradients_are_sums_over_the_microbatches(folder):
    """Which is why `pipesim schedule --messages` writes 0REDUCE_GRAD: PyTorch takes the mean there."""
    gradients, _ = came_out(folder, UNREDUCED)
    wanted, _ = expected(2)
    for name, gradient in wanted.items():
        assert_near(gradients[name], MICROBATCHES * gradient)


def test_both_forms_are_the_same_schedule(folder):
    for scheduler in RUN:
        plain, full = (Schedule.load(folder / f"{scheduler} {form}.csv") for form in FORMS)
        assert plain == full
        assert "SEND_F" in (folder / f"{scheduler} compute_comms.csv").read_text()
        assert "SEND_F" not in (folder / f"{scheduler} compute_only.csv").read_text()
