"""JSON Schemas of all files that people write or edit: docs/schemas has them, `pipesim init` writes them too."""

import json
from collections.abc import Callable

from pipesim.base import json_schema
from pipesim.base.json_schema import Schema
from pipesim.base.settings import settings_of
from pipesim.core.calibrations import Calibrations
from pipesim.core.cluster import Cluster
from pipesim.core.model import Model
from pipesim.core.plan import DERIVED_KEYS, Plan
from pipesim.core.scenario import Scenario
from pipesim.core.trace import TraceHeader
from pipesim.display.figures import Chart
from pipesim.engines import ENGINES
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep import sweep_file
from pipesim.topologies.hosts.machines import Machines

_VALUE: Schema = {"type": ["number", "string", "boolean"]}
_RANGE: Schema = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("from", "to", "step", "factor", "count")},
    "required": ["from"],
    "additionalProperties": False,
}
_AXIS: Schema = {"anyOf": [{"type": "array", "items": _VALUE}, _RANGE]}


def _sweep() -> Schema:
    """The sweep file; its tables are read by functions of their own."""
    simulate = json_schema.of_settings(settings_of(Simulation))
    simulate["properties"]["engine"] = {
        "description": "Or a function of your own.",
        "examples": list(ENGINES),
        "type": "string",
    }
    text_or_list = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    zipped = {"type": "object", "additionalProperties": _AXIS}
    grid = {
        "description": "Every value with every other; a name that is no option is a name for formulas.",
        "type": "object",
        "properties": {"where": text_or_list, "zip": {"anyOf": [zipped, {"type": "array", "items": zipped}]}},
        "additionalProperties": _AXIS,
    }
    chart = json_schema.of_dataclass(Chart)
    style = chart["properties"]["style"]
    body = {
        "description": "What all points have in common, what varies, what is kept, what is drawn.",
        "type": "object",
        "properties": {
            "name": {"description": "Of these results; default: that of the file.", "type": "string"},
            "simulate": simulate,
            "grid": {"anyOf": [grid, {"type": "array", "items": grid}]},
            "output": json_schema.of_dataclass(sweep_file.Output),
            "plot": {
                "anyOf": [
                    chart,
                    {
                        "type": "object",
                        "properties": {"style": style},
                        "additionalProperties": chart,
                    },
                ]
            },
        },
        "additionalProperties": False,
    }
    return json_schema.headed(sweep_file.FORMAT, sweep_file.VERSION, body)


def _plan() -> Schema:
    """A plan, also as `pipesim plan --json` prints it: with what is derived from it."""
    found = json_schema.of_file(Plan)
    found["properties"] |= {name: {} for name in sorted(DERIVED_KEYS)}
    return found


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "cluster": lambda: json_schema.of_file(Cluster),
    "devices": lambda: json_schema.of_file(Calibrations),
    "machines": lambda: json_schema.of_file(Machines),
    "model": lambda: json_schema.of_file(Model),
    "plan": _plan,
    "scenario": lambda: json_schema.of_file(Scenario),
    "sweep": _sweep,
    "trace": lambda: json_schema.of_file(TraceHeader),
}


def file_name(name: str) -> str:
    """What the file of a schema is called."""
    return f"pipesim.{name}.schema.json"


def text_of(name: str) -> str:
    """A schema as the text of its file."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"
