// What is drawn over spans: labels, curves, outlines, the critical path, the axis.

const X = (t, w) => GUTTER + ((t - state.t0) / (state.t1 - state.t0)) * w;
const Y = (item) => AXIS + item.y - state.scroll;

function annotate(visible, w) {
  const bottom = canvas.height / (window.devicePixelRatio || 1);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, w, bottom - AXIS);
  pen.clip();
  for (const item of visible) if (item.step) curve(item, w);
  labels(visible, w);
  if (state.critical) criticalPath(visible, w);
  for (const item of visible) if (item.row !== undefined) outlines(item, w);
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, GUTTER, bottom - AXIS);
  pen.clip();
  pen.fillStyle = looks.panel;
  pen.fillRect(0, AXIS, GUTTER, bottom - AXIS);
  pen.textBaseline = "middle";
  let free = -1;
  for (const item of visible) {
    const y = Y(item) + item.tall / 2;
    if (item.group !== undefined) {
      pen.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
      pen.fillStyle = looks.fore;
      pen.fillText(`${item.folded ? "▸" : "▾"} ${clip(item.group || "all", 20)} (${item.entries.length})`, 6, Math.max(y, AXIS + 8));
    } else if (y - 6 > free && y > AXIS - 2) {
      pen.font = `${Math.min(12, Math.max(9, item.tall))}px system-ui, 'DejaVu Sans', sans-serif`;
      pen.fillStyle = state.selected && state.selected.chart === item.chart && state.selected.row === item.row ? looks.pick : looks.soft;
      pen.fillText(inGroup(item), 14, y);
      free = y + 5;
    }
  }
  pen.restore();
}

// The name of a row without what its group says already.
function inGroup(item) {
  const node = state.group === "node" && item.of ? item.of.replace("links of ", "") : "";
  return node ? item.name.replaceAll(`${node}.`, "") : item.name;
}

const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function labels(visible, w) {
  if (visibleSpans() > 60000) return;
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  let count = 0;
  for (const item of visible) {
    if (item.row === undefined || item.tall < 12 || !item.chart.columns || item.chart.rows[item.row].kind !== "lane") continue;
    const chart = item.chart, c = chart.columns;
    pen.font = `${Math.min(12, item.tall - 3)}px system-ui, 'DejaVu Sans', sans-serif`;
    for (let n = chart.first(item.row, state.t0); n < chart.row_starts[item.row + 1] && count < LABELS; n++) {
      const task = c.row_task[n], x0 = Math.max(GUTTER, X(c.start[task], w)), x1 = Math.min(GUTTER + w, X(c.start[task] + c.duration[task], w));
      if (x0 > GUTTER + w) break;
      const short = c.microbatch[task] >= 0 ? String(c.microbatch[task]) : chart.letters[c.kind[task]];
      if (x1 - x0 < 7 * short.length + 3) continue;
      const long = `${c.stage[task]}${chart.letters[c.kind[task]]}${short}`;
      const [r, g, b] = color(chart, task);
      pen.fillStyle = r * 0.3 + g * 0.59 + b * 0.11 > 125 ? "#111" : "#fff";
      pen.fillText(x1 - x0 > 8 * long.length + 6 ? long : short, (x0 + x1) / 2, Y(item) + item.tall / 2 + 0.5);
      count++;
    }
  }
  pen.textAlign = "left";
}

function curve(item, w) {
  const { step, chart } = item, c = chart.columns;
  if (!c) return;
  let most = step.most;
  for (let n = step.from; n < step.to; n++) most = Math.max(most, c.step_value[n]);
  const y = (value) => Y(item) + item.tall - (value / (most || 1)) * (item.tall - 2);
  pen.beginPath();
  pen.moveTo(X(0, w), y(0));
  for (let n = step.from; n < step.to; n++) {
    const until = n + 1 < step.to ? c.step_time[n + 1] : chart.makespan;
    if (until < state.t0) continue;
    if (c.step_time[n] > state.t1) break;
    pen.lineTo(X(c.step_time[n], w), y(c.step_value[n]));
    pen.lineTo(X(until, w), y(c.step_value[n]));
  }
  pen.lineTo(X(chart.makespan, w), y(0));
  pen.closePath();
  pen.fillStyle = css(looks.kinds[step.kind === "memory" ? 4 : 5]);
  pen.globalAlpha = 0.65;
  pen.fill();
  pen.globalAlpha = 1;
  if (step.kind === "memory" && step.most) {
    pen.strokeStyle = looks.path;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(GUTTER, y(step.most));
    pen.lineTo(GUTTER + w, y(step.most));
    pen.stroke();
    pen.setLineDash([]);
  }
}

function outlines(item, w) {
  const picked = state.selected && state.selected.chart === item.chart && state.selected.row === item.row;
  if (!picked || !item.chart.columns) return;
  frame(item, state.selected.task, w, looks.pick, 2.5);
}

function frame(item, task, w, style, thick) {
  const c = item.chart.columns, x0 = X(c.start[task], w), x1 = X(c.start[task] + c.duration[task], w);
  pen.strokeStyle = style;
  pen.lineWidth = thick;
  pen.strokeRect(x0, Y(item) + 0.5, Math.max(1.5, x1 - x0), item.tall - 1);
  pen.lineWidth = 1;
}

function pathOf(chart) {
  if (!chart.onPath) {
    const { critical, start } = chart.columns;
    chart.onPath = [];
    for (let task = 0; task < critical.length; task++) if (critical[task]) chart.onPath.push(task);
    chart.onPath.sort((a, b) => start[a] - start[b]);
  }
  return chart.onPath;
}

function criticalPath(visible, w) {
  for (const chart of [shown(), other()]) {
    if (!chart || !chart.columns) continue;
    const lane = new Map(visible.filter((item) => item.chart === chart && item.row !== undefined && chart.rows[item.row].kind === "lane").map((item) => [item.row, item]));
    const c = chart.columns;
    let before = null;
    pen.strokeStyle = looks.path;
    for (const task of pathOf(chart)) {
      const end = c.start[task] + c.duration[task];
      if (c.kind[task] < 5) {
        const item = lane.get(c.source[task]);
        if (item && end >= state.t0 && c.start[task] <= state.t1) frame(item, task, w, looks.path, 1.6);
        if (item && before && before.item && before.item !== item && c.start[task] >= state.t0 && before.end <= state.t1) {
          pen.beginPath();
          pen.moveTo(X(before.end, w), Y(before.item) + before.item.tall / 2);
          pen.lineTo(X(c.start[task], w), Y(item) + item.tall / 2);
          pen.stroke();
        }
        before = { item, end };
      }
    }
  }
}

function axis(w) {
  pen.fillStyle = looks.panel;
  pen.fillRect(0, 0, GUTTER + w, AXIS);
  pen.strokeStyle = looks.line;
  pen.fillStyle = looks.soft;
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.textBaseline = "middle";
  const wanted = (state.t1 - state.t0) / Math.max(2, w / 110), power = 10 ** Math.floor(Math.log10(wanted));
  const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted));
  for (let t = Math.ceil(state.t0 / step) * step; t <= state.t1; t += step) {
    const x = Math.round(X(t, w)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, AXIS - 5);
    pen.lineTo(x, AXIS);
    pen.stroke();
    if (x < GUTTER + w - 40) pen.fillText(time(Math.round(t)), x + 3, AXIS / 2);
  }
  pen.beginPath();
  pen.moveTo(0, AXIS - 0.5);
  pen.lineTo(GUTTER + w, AXIS - 0.5);
  pen.stroke();
  for (const chart of [shown(), other()]) {
    if (!chart) continue;
    const x = X(chart.makespan, w);
    pen.strokeStyle = looks.path;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, AXIS);
    pen.lineTo(x, canvas.height);
    if (x > GUTTER) pen.stroke();
    pen.setLineDash([]);
  }
}
