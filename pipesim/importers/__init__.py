"""File -> Trace: each importer reads one format of another program, `function(path, **options)`.

An importer of a format with several files per trace takes a sequence of paths, too. To add one: a file here with a
function, and its line below. The function declares how its files are recognised, and an example of one
(`core.members.ImporterInfo`).
"""

IMPORTERS = {
    "native": "pipesim.importers.native:native",
    "pipedream": "pipesim.importers.pipedream:pipedream",
    "kineto": "pipesim.importers.kineto:kineto",
    "chakra": "pipesim.importers.chakra:chakra",
    "metis": "pipesim.importers.metis:metis",
    "layer_profile": "pipesim.importers.layer_profile:layer_profile",
    "megatron_timers": "pipesim.importers.megatron_timers:megatron_timers",
    "npy": "pipesim.importers.npy:npy",
    "csv": "pipesim.importers.csv_table:csv_table",
}

# File -> Program: formats that describe a run and not a model, `function(path, cluster, **options)`.
PROGRAMS = {
    "chakra": "pipesim.importers.chakra:chakra_program",
}

# Files -> RecordedRun: operations of all ranks and steps, `function(path, *, facts, **options)`.
RUNS = {
    "table": "pipesim.importers.operations.operation_table:operation_table",
    "pipeline_dump": "pipesim.importers.operations.pipeline_dumps:pipeline_dump",
    "kineto": "pipesim.importers.kineto.pipelined:kineto_run",
    "chakra": "pipesim.importers.chakra.recorded_traces:chakra_run",
}
