// Schedules that are edited: checked, timed again, saved.

// The text form: a line for each rank, cells such as 0F2; or the reason why it is none.
function parseTable(text) {
  const rows = [];
  for (const [number, line] of text.trimEnd().split("\n").entries()) {
    const row = [];
    for (const [column, cell] of line.split(",").entries()) {
      const found = /^\s*(\d{1,9})([FBIW])(\d{1,9})\s*$/.exec(cell);
      if (found) row.push([Number(found[1]), "FBIW".indexOf(found[2]), Number(found[3])]);
      else if (cell.trim()) throw new Error(`line ${number + 1}: cell ${column + 1}: '${cell.trim().slice(0, 40)}' found; stage, one of F, B, I, W, and microbatch were expected, such as 0F0`);
    }
    rows.push(row);
  }
  return rows;
}
const tableText = (rows) => rows.map((row) => row.map(([s, k, m]) => `${s}${"FBIW"[k]}${m}`).join(",") || ",").join("\n");
const cell = ([s, k, m]) => `${s}${"FBIW"[k]}${m}`;

// Check a table and time it: [start, end, held, by] of each action, in the order of ranks; an Error if it cannot run.
function retime(data, rows) {
  const { stages, microbatches, devices } = data, S = stages, M = microbatches;
  if (rows.length !== devices.length) throw new Error(`${rows.length} ranks found; ${devices.length} were expected, one per device of the plan`);
  const rankOf = new Map(data.ranks.map(([s, m, rank]) => [s * M + m, rank]));
  const times = new Map(data.times.map(([s, k, rank, ns]) => [(s * 4 + k) * devices.length + rank, ns]));
  const hops = new Map(data.hops.map(([s, k, , ns]) => [s * 16 + k, ns]));
  const at = [new Map(), new Map(), new Map(), new Map()], actions = [];
  rows.forEach((row, rank) => row.forEach((action, position) => {
    const [s, k, m] = action, where = `rank ${rank}, cell ${position + 1}: ${cell(action)} found; `;
    if (s >= S || m >= M || rankOf.get(s * M + m) !== rank) throw new Error(`${where}${s >= S ? `${devices[rank]} does not have this stage` : m >= M ? `this microbatch does not exist (microbatches: ${M})` : `it belongs on ${devices[rankOf.get(s * M + m)]}`}`);
    if (at[k].has(s * M + m)) throw new Error(`${where}it is there twice`);
    if (!times.has((s * 4 + k) * devices.length + rank)) throw new Error(`${where}the page has no time for it`);
    at[k].set(s * M + m, actions.length);
    actions.push({ s, k, m, rank, start: -1, end: -1, held: -1, by: 0 });
  }));
  for (let s = 0; s < S; s++) for (let m = 0; m < M; m++) {
    const [f, b, i, w] = at.map((one) => one.has(s * M + m)), whole = f && (b ? !i && !w : i && w);
    if (!whole) throw new Error(`stage ${s}, microbatch ${m}: one ${s}F${m} and one ${s}B${m} (or one ${s}I${m} and one ${s}W${m}) were expected`);
  }
  const back = (key) => (at[1].has(key) ? at[1].get(key) : at[2].get(key));
  const needs = ({ s, k, m, rank }) => {
    const found = [], key = s * M + m;
    const from = (task, stage, kind) => found.push([task, actions[task].rank === rank ? 0 : hops.get(stage * 16 + kind) || 0]);
    if (k === 0 && s > 0) from(at[0].get(key - M), s - 1, 5);
    if (k === 1 || k === 2) { from(at[0].get(key), s, 5); if (s < S - 1) from(back(key + M), s + 1, 6); }
    if (k === 3) from(at[2].get(key), s, 6);
    return found;
  };
  const queue = [], starts = [0];
  for (const row of rows) starts.push(starts[starts.length - 1] + row.length);
  const position = starts.slice(0, -1), waiters = actions.map(() => []), order = [];
  const advance = (rank) => {
    while (position[rank] < starts[rank + 1]) {
      const task = position[rank], action = actions[task];
      const first = task > starts[rank] ? task - 1 : -1;
      let start = first >= 0 ? actions[first].end : 0, held = first, by = first >= 0 ? 2 : 0;
      for (const [need, hop] of needs(action)) {
        if (actions[need].end < 0) { waiters[need].push(rank); return; }
        if (actions[need].end + hop >= start && actions[need].end + hop > 0) { if (actions[need].end + hop > start || by !== 1) { held = need; by = 1; } start = actions[need].end + hop; }
      }
      Object.assign(action, { start, end: start + times.get((action.s * 4 + action.k) * devices.length + rank), held, by });
      order.push(task);
      position[rank]++;
      queue.push(...waiters[task]);
    }
  };
  rows.forEach((_, rank) => queue.push(rank));
  while (queue.length) advance(queue.shift());
  const stuck = rows.map((_, rank) => rank).filter((rank) => position[rank] < starts[rank + 1]);
  if (stuck.length) {
    throw new Error(["the order is impossible: every rank below waits for another", ...stuck.map((rank) => {
      const action = actions[position[rank]], missing = needs(action).find(([need]) => actions[need].end < 0);
      const blocked = missing ? actions[missing[0]] : action;
      return `  rank ${rank}: ${cell([action.s, action.k, action.m])} waits for ${cell([blocked.s, blocked.k, blocked.m])}`;
    })].join("\n"));
  }
  let makespan = 0;
  for (const action of actions) makespan = Math.max(makespan, action.end);
  for (const { s, k, m, rank, end } of actions) { // messages end later than what they are for only if that is missing
    const next = k === 0 ? at[0].get(s * M + m + M) : k < 3 ? at[0].get(s * M + m - M) : undefined;
    if (next !== undefined && s + (k === 0 ? 1 : -1) >= 0 && s + (k === 0 ? 1 : -1) < S && actions[next].rank !== rank) makespan = Math.max(makespan, end + (hops.get(s * 16 + (k === 0 ? 5 : 6)) || 0));
  }
  const latest = actions.map(() => makespan), following = actions.map((_, task) => (task + 1 < starts[actions[task].rank + 1] ? task + 1 : -1));
  for (const task of order.reverse()) {
    const action = actions[task];
    if (following[task] >= 0) latest[task] = Math.min(latest[task], latest[following[task]] - (actions[following[task]].end - actions[following[task]].start));
    const begins = latest[task] - (action.end - action.start);
    for (const [need, hop] of needs(action)) latest[need] = Math.min(latest[need], begins - hop);
  }
  actions.forEach((action, task) => { action.slack = latest[task] - action.end; });
  return { actions, starts, makespan };
}

// The first chart with the times of an edited table.
function edited(base, data, rows) {
  const { actions, starts, makespan } = retime(data, rows), c = base.columns, chart = Object.assign(new Chart(base, base.number), base);
  const found = new Map(), hops = new Map(data.hops.map(([s, k, , ns]) => [s * 16 + k, ns]));
  for (let t = 0; t < c.kind.length; t++) found.set(`${c.kind[t]} ${c.stage[t]} ${c.microbatch[t]}`, t);
  const columns = { ...c };
  for (const name of ["start", "held", "by", "slack", "critical", "row_task", "row_track"]) columns[name] = c[name].slice();
  const task = actions.map(({ s, k, m }) => found.get(`${k} ${s} ${m}`));
  actions.forEach((action, n) => {
    columns.start[task[n]] = action.start;
    columns.by[task[n]] = action.by;
    columns.held[task[n]] = action.held < 0 ? 0 : task[n] - task[action.held];
    columns.slack[task[n]] = action.slack;
    const move = action.k === 0 ? 5 : 6, sent = action.k < 3 ? found.get(`${move} ${action.s} ${action.m}`) : undefined;
    if (sent !== undefined) {
      columns.start[sent] = action.end;
      columns.held[sent] = sent - task[n];
      columns.by[sent] = 1;
      columns.slack[sent] = Math.max(0, makespan - action.end - (hops.get(action.s * 16 + move) || 0));
    }
  });
  columns.critical.fill(0);
  let last = 0;
  actions.forEach((action, n) => { if (action.end > actions[last].end) last = n; });
  for (let n = last; n >= 0; n = actions[n].held) columns.critical[task[n]] = 1;
  for (let rank = 0; rank < data.devices.length; rank++) for (let n = starts[rank]; n < starts[rank + 1]; n++) columns.row_task[base.row_starts[rank] + n - starts[rank]] = task[n];
  for (let row = data.devices.length; row < base.rows.length; row++) {
    const part = columns.row_task.subarray(base.row_starts[row], base.row_starts[row + 1]);
    part.set([...part].sort((a, b) => columns.start[a] - columns.start[b]));
  }
  Object.assign(chart, { columns, makespan, name: "edited", faded: null, onPath: null, shades: null, tracks: null, loading: Promise.resolve() });
  return chart;
}

const history = { done: [], undone: [] };
function show(rows, message) {
  const chart = edited(state.charts[0], state.head.editing, rows);
  chart.faded = null;
  state.charts[state.edit] = chart;
  state.table = rows;
  state.first = state.edit;
  $("first").value = String(state.edit);
  const before = state.charts[0].makespan, more = chart.makespan - before;
  $("edited").textContent = `${message} ${time(chart.makespan)}${more ? `, ${time(Math.abs(more))} ${more > 0 ? "longer" : "shorter"} than before` : ", as before"}`;
  $("wrong").textContent = "";
  $("table").value = tableText(rows);
  $("undo").disabled = !history.done.length;
  $("redo").disabled = !history.undone.length;
  state.selected = null;
  search(state.query);
  change();
  if (state.t0 <= 0 && state.t1 < chart.makespan) fit();
}

function apply(rows, message) {
  const before = state.table;
  try {
    retime(state.head.editing, rows);
  } catch (error) {
    $("wrong").textContent = error.message;
    return false;
  }
  history.done.push(before);
  history.undone = [];
  show(rows, message);
  return true;
}

function move(rank, from, to) {
  if (to < 0 || to >= state.table[rank].length || from === to) return false;
  const rows = state.table.map((row) => row.slice()), [action] = rows[rank].splice(from, 1);
  rows[rank].splice(to, 0, action);
  if (!apply(rows, `${cell(action)} moved:`)) return false;
  const at = state.charts[state.edit];
  select({ chart: at, row: rank, task: at.columns.row_task[at.row_starts[rank] + to] });
  return true;
}

function positionIn(chart, row, task) {
  for (let n = chart.row_starts[row]; n < chart.row_starts[row + 1]; n++) if (chart.columns.row_task[n] === task) return n - chart.row_starts[row];
  return -1;
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${tableText(state.table)}\n`], { type: "text/csv" }));
  link.download = "schedule.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function startEditing(on) {
  state.editing = on;
  $("editing").setAttribute("aria-pressed", String(on));
  $("edit").hidden = !on;
  if (on && state.edit === undefined) {
    state.edit = state.charts.length;
    state.charts.push(null);
    $("first").add(new Option("edited", String(state.edit)));
    $("second").add(new Option("edited", String(state.edit)));
    $("first").closest("label").hidden = $("second").closest("label").hidden = false;
    show(parseTable(state.head.editing.table.map((row) => row.join(",") || ",").join("\n")), "drag an action along its lane:");
  }
}
