"""File -> Trace: each importer reads one format that others write, `function(path, **options)`."""

IMPORTERS = {
    "native": "pipesim.importers.native:native",
    "pipedream": "pipesim.importers.pipedream:pipedream",
}
