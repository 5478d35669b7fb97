"""(plan, costs, cluster) -> Schedule: in what order each device works on its microbatches.

To add one: a file here with a function, and its line below. What the function needs from a plan, and what its schedules
are like, it declares itself (`core.members.SchedulerInfo`).
"""

SCHEDULERS = {
    "gpipe": "pipesim.schedulers.gpipe:gpipe",
    "one_f_one_b": "pipesim.schedulers.one_f_one_b:one_f_one_b",
    "eager_1f1b": "pipesim.schedulers.eager_1f1b:eager_1f1b",
    "pe": "pipesim.schedulers.pe:pe",
    "interleaved": "pipesim.schedulers.interleaved:interleaved",
    "looped_bfs": "pipesim.schedulers.looped_bfs:looped_bfs",
    "hanayo": "pipesim.schedulers.hanayo:hanayo",
    "zb_h1": "pipesim.schedulers.zb_h1:zb_h1",
    "zb_1p": "pipesim.schedulers.zb_1p:zb_1p",
    "zb_2p": "pipesim.schedulers.zb_2p:zb_2p",
    "interleaved_zb": "pipesim.schedulers.interleaved_zb:interleaved_zb",
    "interleaved_zb_1p": "pipesim.schedulers.interleaved_zb_1p:interleaved_zb_1p",
    "zb_v": "pipesim.schedulers.zb_v:zb_v",
    "v_half": "pipesim.schedulers.v_half:v_half",
    "v_min": "pipesim.schedulers.v_min:v_min",
    "chimera": "pipesim.schedulers.chimera:chimera",
    "dualpipe": "pipesim.schedulers.dualpipe:dualpipe",
    "dualpipe_v": "pipesim.schedulers.dualpipe_v:dualpipe_v",
    "list_schedule": "pipesim.schedulers.list_schedule:list_schedule",
    "auto": "pipesim.schedulers.auto:auto",
    "exact": "pipesim.schedulers.exact:exact",
}

# The schedulers of a comparison that names none: quick, and with one stage per device.
COMPARED = ("gpipe", "pe", "one_f_one_b")
