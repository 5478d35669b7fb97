"""The core types, frozen and validated: trace, model, cluster, costs, plan, schedule, program, timeline."""
