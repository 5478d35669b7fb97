"""Program -> Timeline. Engines only add time; all give the same result to the last bit."""

ENGINES = {
    "event": "pipesim.engines.event:run",
}
