"""(plan, costs, cluster) -> Schedule: in what order each device works on its microbatches.

Some order plans whose stages lie on the devices in a certain way: SHAPES says how; `shapes.shaped` brings them there.
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

# What a comparison takes unless told otherwise: quick, and with one stage per device.
COMPARED = ("gpipe", "pe", "one_f_one_b")

# Those that do backwards in two parts, so that a microbatch is three actions on a stage. `exact` may.
SPLITS = frozenset(
    "zb_h1 zb_1p zb_2p interleaved_zb zb_v v_half v_min dualpipe dualpipe_v exact".split()  # noqa: SIM905 - names read best in one line
)

# Name -> shape, the option that says how many chunks a device holds, and how many for each unit of it ("": so many).
SHAPES = {
    "interleaved": ("loop", "chunks", 1),
    "looped_bfs": ("loop", "chunks", 1),
    "interleaved_zb": ("loop", "chunks", 1),
    "hanayo": ("wave", "waves", 2),
    "zb_v": ("wave", "", 2),
    "v_half": ("wave", "", 2),
    "v_min": ("wave", "", 2),
    "dualpipe_v": ("wave", "", 2),
    "chimera": ("both", "", 1),
    "dualpipe": ("both", "", 1),
}
