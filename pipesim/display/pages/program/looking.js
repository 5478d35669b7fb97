// Moving about, what is known of a task, and search.

function look(t0, t1) {
  const whole = span() * 1.02, least = Math.min(whole, 20);
  const width = Math.max(least, Math.min(t1 - t0, whole));
  const begin = Math.max(-0.02 * span(), Math.min(t0, whole - width));
  [state.t0, state.t1] = [begin, begin + width];
  redraw();
}
function zoom(factor, at = (state.t0 + state.t1) / 2) { look(at - (at - state.t0) / factor, at + (state.t1 - at) / factor); }
function pan(part) { const by = (state.t1 - state.t0) * part; look(state.t0 + by, state.t1 + by); }
function scroll(by) { state.scroll = Math.max(0, Math.min(state.scroll + by, state.total - (state.height - AXIS))); redraw(); }
function fit() { look(0, span() * 1.02); }
function change() { resize(); redraw(); }

function timeAt(x) { return state.t0 + ((x - GUTTER) / (canvas.clientWidth - GUTTER)) * (state.t1 - state.t0); }
function itemAt(y) { return state.items.find((item) => y - AXIS + state.scroll >= item.y && y - AXIS + state.scroll < item.y + item.tall + 1); }

function taskAt(x, y) {
  const item = y > AXIS && itemAt(y);
  if (!item || item.row === undefined || !item.chart.columns || x < GUTTER) return null;
  const chart = item.chart, c = chart.columns, t = timeAt(x), near = 3 * (state.t1 - state.t0) / canvas.clientWidth;
  const tracks = tracksOf(chart, item.row), track = Math.floor(((y - AXIS + state.scroll - item.y) / item.tall) * tracks);
  let best = null, least = near;
  for (let n = chart.first(item.row, t - near); n < chart.row_starts[item.row + 1]; n++) {
    const task = c.row_task[n], start = c.start[task];
    if (start > t + near) break;
    if (tracks > 1 && c.row_track[n] !== track) continue;
    const far = Math.max(start - t, t - start - c.duration[task], 0);
    if (far < least || (far === least && best === null)) { best = task; least = far; }
  }
  return best === null ? null : { chart, row: item.row, task: best };
}

function about({ chart, task }) {
  const c = chart.columns, end = c.start[task] + c.duration[task];
  const lines = [`${chart.label(task)}: ${chart.kinds[c.kind[task]]} of stage ${c.stage[task]}${c.microbatch[task] >= 0 ? `, microbatch ${c.microbatch[task]}` : ""}`];
  lines.push(`${time(c.start[task])} to ${time(end)}, lasts ${time(c.duration[task])}`);
  if (c.bytes[task]) lines.push(`${size(c.bytes[task])}, ${Number((c.bytes[task] / Math.max(1, c.duration[task])).toPrecision(4))} GB/s`);
  lines.push(waited(chart, task));
  lines.push(c.critical[task] ? "on the critical path" : `slack ${time(c.slack[task])}`);
  return lines.join("\n");
}

function waited(chart, task) {
  const c = chart.columns, why = ["", "which it needs", "before it on the device", "before it on a link"][c.by[task]];
  if (!c.by[task] || !c.held[task]) return c.start[task] > 0 ? "waited for nothing that is known" : "starts at once";
  const holder = task - c.held[task], pause = c.start[task] - c.start[holder] - c.duration[holder];
  return `waited for ${chart.label(holder)}, ${why}${pause > 0 ? `, and ${time(pause)} more` : ""}`;
}

function rowOf(chart, task) {
  const c = chart.columns;
  if (c.kind[task] < 5) return c.source[task];
  for (let row = chart.devices.length; row < chart.rows.length; row++) {
    for (let n = chart.first(row, c.start[task]); n < chart.row_starts[row + 1]; n++) {
      if (c.row_task[n] === task) return row;
      if (c.start[c.row_task[n]] > c.start[task]) break;
    }
  }
  return -1;
}

function select(picked, reveal = false) {
  state.selected = picked;
  $("details").textContent = picked ? about(picked) : "";
  if (picked && reveal) {
    const c = picked.chart.columns, begin = c.start[picked.task], end = begin + c.duration[picked.task];
    if (begin < state.t0 || end > state.t1) {
      const half = Math.max((state.t1 - state.t0) / 2, end - begin);
      look((begin + end) / 2 - half, (begin + end) / 2 + half);
    }
    const item = state.items.find((one) => one.chart === picked.chart && one.row === picked.row);
    if (item && (item.y < state.scroll || item.y + item.tall > state.scroll + state.height - AXIS)) scroll(item.y - state.scroll - state.height / 3);
  }
  redraw();
}

function step(by) {
  const { chart, row, task } = state.selected || {};
  if (!chart) { const c = shown().columns; if (c && c.row_task.length) select({ chart: shown(), row: 0, task: c.row_task[0] }, true); return; }
  const c = chart.columns;
  for (let n = chart.row_starts[row]; n < chart.row_starts[row + 1]; n++) {
    if (c.row_task[n] === task) {
      const next = n + by;
      if (next >= chart.row_starts[row] && next < chart.row_starts[row + 1]) select({ chart, row, task: c.row_task[next] }, true);
      return;
    }
  }
}

function toHolder() {
  if (!state.selected) return;
  const { chart, task } = state.selected, c = chart.columns;
  if (!c.by[task] || !c.held[task]) return;
  const holder = task - c.held[task];
  select({ chart, row: rowOf(chart, holder), task: holder }, true);
}

// 0F2 an action; F3 any stage; stage:1, mb:2, a kind, or a part of a device's name. All words must match.
function matcher(chart, text) {
  const c = chart.columns, words = text.trim().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    let found = /^(\d*)([FBIWO><AG])(\d*)$/.exec(word);
    if (found) {
      const kind = chart.letters.indexOf(found[2]), stage = found[1] === "" ? -1 : Number(found[1]), m = found[3] === "" ? -1 : Number(found[3]);
      return (t) => c.kind[t] === kind && (stage < 0 || c.stage[t] === stage) && (m < 0 || c.microbatch[t] === m);
    }
    found = /^(stage|mb|microbatch)[:=](\d+)$/.exec(word);
    if (found) { const column = found[1] === "stage" ? c.stage : c.microbatch, value = Number(found[2]); return (t) => column[t] === value; }
    const kind = chart.kinds.findIndex((name) => [name, name.replace(" ", "-"), name.split(" ")[0]].includes(word));
    if (kind >= 0) return (t) => c.kind[t] === kind;
    if (word === "critical") return (t) => c.critical[t] === 1;
    const places = chart.devices.map((name) => name.includes(word));
    return (t) => places[c.source[t]] || places[c.target[t]];
  });
  return (task) => tests.every((test) => test(task));
}

function search(text) {
  state.query = text;
  const chart = shown();
  state.hits = null;
  state.hit = -1;
  if (text.trim() && chart.columns) {
    const matches = matcher(chart, text), marks = new Uint8Array(chart.columns.kind.length), list = [];
    for (let task = 0; task < marks.length; task++) if (matches(task)) { marks[task] = 1; list.push(task); }
    state.hits = { chart, marks, list };
    $("found").textContent = list.length === 1 ? "1 task" : `${list.length.toLocaleString("en")} tasks`;
  } else $("found").textContent = "";
  redraw();
}

function nextHit(by) {
  if (!state.hits || !state.hits.list.length) return;
  const { chart, list } = state.hits;
  state.hit = (state.hit + by + list.length) % list.length;
  $("found").textContent = `${state.hit + 1} of ${list.length.toLocaleString("en")}`;
  const task = list[state.hit];
  select({ chart, row: rowOf(chart, task), task }, true);
}
