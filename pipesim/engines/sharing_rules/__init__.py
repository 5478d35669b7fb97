"""How each sharing rule of `pipesim.core.sharing` works: one module per rule, which holds everything that acts.

    link_manager    a class, or a function that chooses one, the SimPy side: which transfers hold or share which links,
                    and when each ends (`pipesim.engines.link_manager.LinkManager` is its base)
    event_loop      a compiled kernel, or a function that chooses one: the same rule in the compiled engine,
                    `ProgramArrays` to `RunTimes` (`pipesim.engines.compiled.simulation_state` has what all share)
    event_loop_from a compiled kernel: the same from a moment before which the program is as an earlier one, from
                    `ProgramArrays` and what that had come to (`pipesim.engines.compiled.resuming`)
    verify          raises CorruptTimelineError unless the transfers of a timeline keep the rule, without asking either

A new rule is one such module and one entry of `_RULES` in `pipesim.core.sharing`; `check_sharing_rule` in
tests/helpers/contracts.py tests whatever is in the registry.
"""
