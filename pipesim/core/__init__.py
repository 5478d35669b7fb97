"""The types that everything else is about, frozen and validated: trace, cluster, plan, schedule, program, timeline."""
