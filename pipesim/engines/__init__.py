"""Program -> Timeline. Engines only add time; all give the same result to the last bit."""

ENGINES = {
    "auto": "pipesim.engines.selection:run",
    "event": "pipesim.engines.event:run",
    "compiled": "pipesim.engines.compiled:run",
}
