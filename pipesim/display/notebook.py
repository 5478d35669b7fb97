"""What core types show of themselves: `paragraph` in a terminal, `html` in a notebook."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pipesim.base import units
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Plan
from pipesim.core.plan_layout import PlanLayout
from pipesim.core.program import KINDS, Program
from pipesim.core.schedule import Schedule
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.display import pages
from pipesim.display.text.columns import TextColumn, cells
from pipesim.display.text.formatting import FEW, rate, seconds, size

DRAWN = 1000  # tasks; a chart of more is larger than a notebook should hold
IN_A_PAGE = 200_000  # tasks; each output of a notebook is kept in its file
_FRAME, _TALLEST = 330, 800  # pixels of a page without its lanes, and of any page in a notebook
_WIDTH, _LANE, _LEFT = 900, 22, 110  # of a chart, in pixels
_COLOURS = {
    "forward": "#A3D6F5",
    "backward": "#C8540A",
    "input": "#DE9400",
    "weight": "#007358",
    "optimizer": "#33336B",
}
_DARK = {"backward", "weight", "optimizer"}


def paragraph(value: object) -> str:
    """A value in a sentence."""
    return next(words(value) for kind, (words, _) in _SHOWN.items() if isinstance(value, kind))


def html(value: object) -> str:
    """A value as a table or a chart, below its sentence."""
    words, shown = next(functions for kind, functions in _SHOWN.items() if isinstance(value, kind))
    return f"<p>{escape(words(value))}</p>{shown(value)}"


# --- tables ----------------------------------------------------------------------------------------------------------


def html_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: int = 1,
    bold: Collection[int] = (),
    red: Collection[int] = (),
) -> str:
    """A table; `bold` and `red` are rows."""
    head = "".join(_cell("th", header, on_left=n < left) for n, header in enumerate(headers))
    body = []
    for number, row in enumerate(rows):
        look = ("font-weight:bold;" if number in bold else "") + ("color:#C00000;" if number in red else "")
        styled = f' style="{look}"' if look else ""
        body.append(f"<tr{styled}>{''.join(_cell('td', cell, on_left=n < left) for n, cell in enumerate(row))}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def below(sentence: str, table: str, more: int = 0) -> str:
    """A table under the sentence of its value; `more` rows are left out."""
    left_out = f"<p>... and {more:,} more rows</p>" if more > 0 else ""
    return f"<p>{escape(sentence)}</p>{table}{left_out}"


def records_table(
    columns: Sequence[TextColumn],
    records: Sequence[Mapping[str, Any]],
    bold: Collection[int] = (),
    red: Collection[int] = (),
) -> str:
    """Records as a table."""
    left = sum(one.on_left for one in columns)
    return html_table([one.header for one in columns], cells(columns, records), left, bold, red)


def _cell(tag: str, text: str, *, on_left: bool) -> str:
    return f'<{tag} style="text-align:{"left" if on_left else "right"}">{escape(text)}</{tag}>'


def _first(rows: Sequence[Sequence[str]], what: str) -> tuple[Sequence[Sequence[str]], str]:
    """The first rows, and a line for the others."""
    more = len(rows) - FEW
    return rows[:FEW], f"<p>... and {more:,} more {what}; all of them with .frame()</p>" if more > 0 else ""


# --- core types ------------------------------------------------------------------------------------------------------


def _trace_words(trace: Trace) -> str:
    kinds = ", ".join(trace.device_kinds)
    return (
        f"Trace of {trace.model}: {trace.layer_count} layers on {kinds}, microbatches of {trace.microbatch_size}; "
        + (trace.source)
    )


def _trace_html(trace: Trace) -> str:
    table = trace.layers
    rows = [
        [name, kind, device, seconds(forward), size(parameters), size(output)]
        for name, kind, device, forward, parameters, output in zip(
            *(table[key].tolist() for key in ("name", "kind", "device_kind", "forward_s", "parameter_bytes")),
            table["output_bytes"].tolist(),
            strict=True,
        )
    ]
    shown, more = _first(rows, "rows")
    return html_table(["layer", "kind", "device", "forward", "parameters", "passed on"], shown, 3) + more


def _cluster_words(cluster: Cluster) -> str:
    kinds = dict.fromkeys(device.kind for device in cluster.devices)
    devices = ", ".join(f"{sum(device.kind == kind for device in cluster.devices)} x {kind}" for kind in kinds)
    nodes = len({device.node for device in cluster.devices})
    return f"Cluster {cluster.name}: {devices} on {nodes} node{'s' if nodes > 1 else ''}, {len(cluster.links)} links"


def _cluster_html(cluster: Cluster) -> str:
    kinds: dict[tuple[str, str, str], int] = {}
    for link in cluster.links:
        key = (rate(link.bandwidth), seconds(link.latency), link.duplex)
        kinds[key] = kinds.get(key, 0) + 1
    rows = [[*key[:2], f"{key[2]} duplex", str(count)] for key, count in kinds.items()]
    return html_table(["bandwidth", "latency", "links", "count"], rows, 0)


def _plan_words(plan: Plan) -> str:
    by = f" by {plan.planner}" if plan.planner else ""
    return f"Plan of {plan.model}{by}: {PlanLayout.of(plan)} ({len(plan.gpus)} GPUs), {plan.microbatches} microbatches"


def _plan_html(plan: Plan) -> str:
    rows = [
        [str(n), f"{stage.start} to {stage.stop - 1}", str(stage.stop - stage.start), ", ".join(stage.devices[:8])]
        for n, stage in enumerate(plan.stages)
    ]
    shown, more = _first(rows, "stages")
    return html_table(["stage", "layers", "count", "devices"], shown, 1) + more


def _schedule_words(schedule: Schedule) -> str:
    ranks, actions = len(schedule), len(schedule.stage)
    stages, microbatches = (int(each.max(initial=-1)) + 1 for each in (schedule.stage, schedule.microbatch))
    return f"Schedule of {actions} actions on {ranks} ranks: {stages} stages, {microbatches} microbatches"


def _schedule_html(schedule: Schedule) -> str:
    lines = [
        f"{rank}: {' '.join(row[:60])}{' ...' if len(row) > 60 else ''}" for rank, row in enumerate(schedule.cells)
    ]
    more = [f"... and {len(lines) - FEW} more ranks"] if len(lines) > FEW else []
    return f"<pre>{escape(chr(10).join(lines[:FEW] + more))}</pre>"


def _timeline_words(timeline: Timeline) -> str:
    program = timeline.program
    time = seconds(units.to_s(timeline.makespan))
    return f"Timeline of {len(program):,} tasks on {len(program.devices)} devices: {time} ({timeline.engine} engine)"


def _timeline_html(timeline: Timeline) -> str:
    """The interactive page of a timeline, in a frame of its own; "" if it is large."""
    if len(timeline.program) > IN_A_PAGE:
        return "<p>too large for a notebook: ps.pages.write(ps.pages.page_of(result), 'page.html') writes a page</p>"
    shown = pages.html(pages.Page(_timeline_words(timeline), charts={"timeline": timeline}))
    height = min(_FRAME + _LANE * len(timeline.program.devices), _TALLEST)
    style = "width:100%;border:1px solid #BBBBBB"
    return f'<iframe srcdoc="{escape(shown)}" sandbox="allow-scripts" height="{height}" style="{style}"></iframe>'


def gantt_svg(timeline: Timeline) -> str:
    """A Gantt chart of computations whose boxes show what they are and when, where the mouse is; "" if it is large."""
    program = timeline.program
    if len(program) > DRAWN or not timeline.makespan:
        return ""
    scale = (_WIDTH - _LEFT - 10) / timeline.makespan
    parts = []
    for number, (name, lane) in enumerate(zip(program.devices, program.order, strict=True)):
        y = number * _LANE
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts += [_box(timeline, program, task, y, scale) for task in lane.tolist()]
    height = len(program.devices) * _LANE
    end = seconds(units.to_s(timeline.makespan))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height + 22}" width="{_WIDTH}" style="max-width:100%" role="img" '
        f'font-family="sans-serif" font-size="11" fill="currentColor"><title>Gantt chart of {end}</title>'
        f'{"".join(parts)}<text x="{_LEFT}" y="{height + 16}">0</text>'
        f'<text x="{_WIDTH - 10}" y="{height + 16}" text-anchor="end">{end}</text></svg>'
    )


def _box(timeline: Timeline, program: Program, task: int, y: int, scale: float) -> str:
    """A task: its box, what it is and when, and the number of its microbatch where it has room."""
    kind, start, end = KINDS[int(program.kind[task])], int(timeline.start[task]), int(timeline.end[task])
    microbatch, x, width = int(program.microbatch[task]), _LEFT + start * scale, max((end - start) * scale, 0.4)
    whose = f", microbatch {microbatch}" if microbatch >= 0 else ""
    when = f"{seconds(units.to_s(start))} to {seconds(units.to_s(end))}"
    about = f"stage {int(program.stage[task])}, {kind}{whose}: {seconds(units.to_s(end - start))}, {when}"
    number = ""
    if microbatch >= 0 and width > 7 * len(str(microbatch)) + 2:
        ink = "#FFFFFF" if kind in _DARK else "#222222"
        number = (
            f'<text x="{x + width / 2:.1f}" y="{y + 15}" text-anchor="middle" fill="{ink}" '
            f'pointer-events="none">{microbatch}</text>'
        )
    fill = _COLOURS.get(kind, "#7F7F7F")
    return (
        f'<rect x="{x:.1f}" y="{y + 1}" width="{width:.1f}" height="{_LANE - 4}" fill="{fill}" '
        f'stroke="#FFFFFF" stroke-width="0.5"><title>{about}</title></rect>{number}'
    )


_SHOWN: dict[type, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    Trace: (_trace_words, _trace_html),
    Cluster: (_cluster_words, _cluster_html),
    Plan: (_plan_words, _plan_html),
    Schedule: (_schedule_words, _schedule_html),
    Timeline: (_timeline_words, _timeline_html),
}
