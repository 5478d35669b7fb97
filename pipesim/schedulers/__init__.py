"""(plan, costs, cluster) -> Schedule: in what order each device works on its microbatches."""

SCHEDULERS = {
    "gpipe": "pipesim.schedulers.gpipe:gpipe",
    "pe": "pipesim.schedulers.pe:pe",
    "one_f_one_b": "pipesim.schedulers.one_f_one_b:one_f_one_b",
}
