"""Options of commands that explore schedules without a trace: how many stages, and how long things take."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipesim.base.settings import setting, settings_of
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.core.limits import HostMemory
    from pipesim.lowering import Options
    from pipesim.studies.equal_stages import Times

_SIMULATION = settings_of(Simulation)


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """A pipeline of equal stages: its size, and seconds by phase."""

    stages: int = setting(4, int, "Devices of the pipeline.", group="pipeline", flags=("--pp",))
    microbatches: int = setting(8, int, "Microbatches.", group="pipeline", short="m")
    forward: float = setting(1.0, float, "Seconds of a forward.", group="pipeline")
    backward: float | None = setting(
        None, float, "Seconds of a whole backward; default: two forwards.", group="pipeline"
    )
    input_grad: float | None = setting(
        None, float, "Seconds of the input's gradient; default: half of a backward.", group="pipeline"
    )
    weight_grad: float | None = setting(
        None, float, "Seconds of the weights' gradient; default: the rest of it.", group="pipeline"
    )
    hop: float = setting(0.0, float, "Seconds of a message.", group="pipeline")
    pair_factor: float | None = setting(
        None, float, "A forward and a backward as one take this part of their sum.", group="pipeline"
    )
    host_memory: "HostMemory" = setting(None, str, _SIMULATION["host_memory"].help, metavar="SIZE", in_key=False)

    def size(self, *schedulers: str) -> tuple[int, int]:
        """Stages and microbatches; where not given, those of the first file among the schedulers."""
        from pipesim.cli import setting_options
        from pipesim.studies import equal_stages
        from pipesim.studies.ordering import is_table

        given, size = setting_options.given_names(), (self.stages, self.microbatches)
        table = next((name for name in schedulers if is_table(name)), None)
        if table is None:
            return size
        found = equal_stages.size_of_table(table)
        both = zip(("stages", "microbatches"), size, found, strict=True)
        stages, microbatches = (asked if name in given else has for name, asked, has in both)
        return stages, microbatches

    def times(self) -> "Times":
        """Seconds by phase."""
        from pipesim.studies.equal_stages import Times

        return Times.of(self.forward, self.backward, self.input_grad, self.weight_grad, self.hop)

    def options(self) -> "Options":
        """How pairs of actions run."""
        from pipesim.lowering import Options

        return Options(pair_factor=self.pair_factor)
