"""File -> Trace: each importer reads one format that others write, `function(path, **options)`.

Those in SEVERAL take a sequence of paths too, or a folder of files: what several ranks of one run recorded.
"""

IMPORTERS = {
    "native": "pipesim.importers.native:native",
    "pipedream": "pipesim.importers.pipedream:pipedream",
    "kineto": "pipesim.importers.kineto:kineto",
}
SEVERAL = frozenset({"kineto"})
