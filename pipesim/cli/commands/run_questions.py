"""What is asked of a recorded run beside its replay: ledger, stragglers, steps that were not recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipesim.base.settings import setting
from pipesim.cli import options

if TYPE_CHECKING:
    from pipesim.core.recorded_run import RecordedRun


@dataclass(frozen=True, slots=True)
class RunQuestions:
    """What is computed of a recorded run."""

    ledger: bool = setting(
        False, bool, "What a step consists of, by cause, and how long it is without each; mean of all steps.",
        group="recorded runs",
    )  # fmt: skip
    stragglers: bool = setting(
        False, bool, "How much slower the run is for its stragglers, by replica, stage and operation.",
        group="recorded runs",
    )  # fmt: skip
    iterations: int | None = setting(
        None, int, "Draw so many steps with the variance of the recorded ones.", short="n", group="recorded runs"
    )
    draw: str | None = setting(
        None, str, "What those steps draw together: a whole step, a microbatch, or nothing; default: as found.",
        choices=("step", "microbatch", "independent"), group="recorded runs",
    )  # fmt: skip
    seed: int = setting(0, int, "Seed of those draws.", group="recorded runs")

    def answers(self, run: "RecordedRun", *, quiet: bool) -> dict[str, Any]:
        """What was asked for, as plain numbers."""
        from pipesim.analysis import ledger, straggler_metrics
        from pipesim.engines import by_name, compiled
        from pipesim.studies import run_prediction

        options.check_given("without --iterations", is_there=self.iterations is not None, without=("draw", "seed"))
        found: dict[str, Any] = {}
        if not (self.ledger or self.stragglers or self.iterations is not None):
            return found
        with options.busy("simulating", quiet=quiet):
            steps = run_prediction.recorded_steps(run)
            if self.ledger:
                every = [ledger.recorded_ledger(step, by_name.makespans("compiled")) for step in steps]
                per_step = zip(run.steps, every, strict=True)
                found["ledger"] = ledger.mean_data(every)
                found["ledgers"] = [{"step": number, **one.as_data()} for number, one in per_step]
            if self.stragglers:
                metrics = straggler_metrics.straggler_metrics(run, compiled.makespans)
                found["straggler_metrics"] = metrics.as_data()
            if self.iterations is not None:
                model = run_prediction.RunModel.of(run)
                drawn = run_prediction.predicted(model, self.iterations, self.seed, self.draw or "found")
                found["prediction"] = drawn.as_data() | {"draw": self.draw or "found", "seed": self.seed}
        return found


def shown(answers: Mapping[str, Any]) -> str:
    """The answers as text."""
    from pipesim.display import text

    parts = []
    if "ledger" in answers:
        parts.append(text.ledger(answers["ledger"]))
    if "straggler_metrics" in answers:
        parts.append(text.stragglers(answers["straggler_metrics"], on=options.terminal()))
    if "prediction" in answers:
        parts.append(text.prediction(answers["prediction"]))
    return "\n\n".join(parts)
