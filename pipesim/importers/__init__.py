"""File -> Trace: each importer reads one format that others write, `function(path, **options)`.

An importer whose format comes in several files that belong together takes them in place of the one path.
"""

IMPORTERS = {
    "native": "pipesim.importers.native:native",
    "pipedream": "pipesim.importers.pipedream:pipedream",
    "kineto": "pipesim.importers.kineto:kineto",
    "chakra": "pipesim.importers.chakra:chakra",
    "metis": "pipesim.importers.metis:metis",
    "npy": "pipesim.importers.npy:npy",
    "csv": "pipesim.importers.csv_table:csv_table",
}

# File -> Program: what describes a run and not a model, `function(path, cluster, **options)`.
PROGRAMS = {
    "chakra": "pipesim.importers.chakra:chakra_program",
}
