"""pipesim calibrate."""

from typing import TYPE_CHECKING, Any

import click

from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.studies.calibration import Calibrated


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--output", "-o", required=True, type=click.Path(dir_okay=False), help="File to write (.toml).")
@click.option("--name", help="Name of the kind in the file.  [default: that of its data sheet]")
@click.option(
    "--device", "-d", help="Kind whose data sheet counts, where a trace names none that is known.",
    shell_complete=setting_options.complete("devices"),
)  # fmt: skip
@click.option(
    "--architecture", help="The model that a recorded trace is of.", shell_complete=setting_options.complete("models")
)
@click.option(
    "--constants", help="Which to fit, as product,memory,launch_s.  [default: as many as the measurements determine]"
)
@setting_options.options(TableOutputs, "tables")
@options.as_json
def calibrate(
    *,
    runs: tuple[str, ...],
    output: str,
    name: str | None,
    device: str | None,
    architecture: str | None,
    constants: str | None,
    tables: TableOutputs,
    as_json: bool,
) -> None:
    """Fit the constants of a kind of device to measured iterations or recorded layers.

    RUN is a CSV file with a line per measured iteration, whose columns are fields of a simulation and iteration_s
    (seconds), or a recorded trace, whose model --architecture names. The kind is then used wherever one is named, as
    FILE:NAME.

    \b
    Examples:
      pipesim calibrate runs.csv -o my-devices.toml
      pipesim calibrate profile --architecture gpt2-xl --device a100-80 -o my-devices.toml
      pipesim trace gpt2-xl --device my-devices.toml:a100-80gb -o my-gpt
    """
    from pathlib import Path

    from pipesim.base import serialisation
    from pipesim.core.calibrations import Calibrations
    from pipesim.display import text
    from pipesim.studies import calibration

    tables.check(as_json=as_json)
    if not output.endswith(".toml"):
        raise click.UsageError("--output: a file that ends in .toml was expected", click.get_current_context())
    chosen = [one.strip() for one in (constants or "").split(",") if one.strip()]
    found = calibration.calibrate(runs, name=name, device=device, architecture=architecture, constants=chosen)
    serialisation.save(Calibrations((found.calibration,)), Path(output))
    data = _data(found)
    shown = ShownItem(lambda: text.calibration(data), lambda: data | {"output": output}, lambda: text.residuals(data))
    tables.show(shown, as_json=as_json)
    options.wrote(output, f"use device {output}:{found.calibration.name}", quiet=as_json or tables.is_alone)


def _data(found: "Calibrated") -> dict[str, Any]:
    """All of a calibration as plain numbers and text."""
    from pipesim.base import serialisation

    return {
        "device": serialisation.to_data(found.calibration),
        "fitted": list(found.fitted),
        "mean_error": found.mean_error,
        "mean_error_before": found.mean_error_before,
        "residuals": [one._asdict() | {"error": one.error} for one in found.residuals],
    }
