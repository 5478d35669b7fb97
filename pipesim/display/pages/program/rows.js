// What is shown and how: the state of the page, its colours, its rows in groups.

const state = {
  charts: [], head: null, first: 0, second: -1, t0: 0, t1: 1, scroll: 0, group: "node", folded: new Set(),
  links: true, memory: false, load: false, critical: false, selected: null, query: "", hits: null, hit: -1,
  editing: false, tall: 0, items: [], frames: [], painted: null, height: 0,
};
const shown = () => state.charts[state.first];
const other = () => (state.second >= 0 ? state.charts[state.second] : null);
const span = () => Math.max(...[shown(), other()].filter(Boolean).map((chart) => chart.makespan), 1);

const LIGHT = {
  back: [255, 255, 255], fore: "#1b1f24", soft: "#59626d", line: "#d0d7de", panel: "#f6f8fa", path: "#d1001f", pick: "#0a58ca",
  kinds: [[66, 133, 200], [92, 168, 92], [70, 165, 140], [222, 160, 60], [140, 100, 180], [120, 150, 190], [135, 175, 120], [208, 98, 90], [190, 120, 160]],
};
const DARK = {
  back: [15, 20, 25], fore: "#e6e9ed", soft: "#9aa5b1", line: "#333c47", panel: "#1a2129", path: "#ff6b6b", pick: "#7ab7ff",
  kinds: [[72, 140, 214], [84, 160, 92], [62, 158, 134], [214, 150, 56], [150, 112, 196], [98, 126, 168], [104, 146, 96], [206, 92, 84], [186, 112, 152]],
};
let looks = LIGHT;

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
function time(ns) {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) || [1, "ns"];
  return `${Number((ns / scale).toPrecision(6))} ${unit}`;
}
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = 0;
  while (bytes >= 1024 && n < units.length - 1) { bytes /= 1024; n++; }
  return `${Number(bytes.toPrecision(4))} ${units[n]}`;
}

function groupOf(row) {
  if (state.group === "stage") return row.kind === "link" ? "links" : `stage ${row.stage}`;
  if (state.group === "node") return row.node ? (row.kind === "link" ? `links of ${row.node}` : row.node) : row.kind === "link" ? "links" : "";
  return "";
}

function arrange() {
  const chart = shown(), pair = other(), lanes = chart.devices.length * (pair ? 2 : 1);
  const room = Math.max(240, Math.min(window.innerHeight * 0.62, 760)) - AXIS;
  const tall = state.tall || Math.max(4, Math.min(24, Math.floor((room * 0.8) / Math.max(1, lanes))));
  const groups = new Map();
  const add = (name, entry) => { if (!groups.has(name)) groups.set(name, []); groups.get(name).push(entry); };
  const curves = new Map(chart.steps.map((step) => [`${step.kind} ${step.of}`, step]));
  const others = pair ? new Map(pair.rows.map((row, n) => [`${row.kind} ${row.name}`, n])) : null;
  const known = new Set();
  chart.rows.forEach((row, n) => {
    if (row.kind === "link" && !state.links && !state.load) return;
    const group = groupOf(row);
    if (row.kind === "lane" || state.links) {
      add(group, { chart, row: n, tall: row.kind === "lane" ? tall : Math.max(4, tall * 0.7), name: row.name });
      const twin = others && others.get(`${row.kind} ${row.name}`);
      if (twin !== undefined && twin !== null) {
        known.add(twin);
        add(group, { chart: pair, row: twin, tall: row.kind === "lane" ? tall : Math.max(4, tall * 0.7), name: `${row.name} · B` });
      }
    }
    const lane = row.kind === "lane";
    const step = curves.get(lane ? `memory ${n}` : chart.steps.find((s) => s.kind === "load" && s.name === row.name) ? `load ${chart.steps.find((s) => s.kind === "load" && s.name === row.name).of}` : "");
    if (step && (lane ? state.memory : state.load)) add(group, { chart, step, tall: Math.max(16, tall), name: `${row.name} ${lane ? "memory" : "load"}` });
  });
  if (pair) pair.rows.forEach((row, n) => {
    if (!known.has(n) && (row.kind === "lane" || state.links)) add(groupOf(row), { chart: pair, row: n, tall, name: `${row.name} · B` });
  });
  state.items = [];
  let y = 0;
  for (const [name, entries] of groups) {
    const folded = state.folded.has(name);
    if (name || folded) {
      state.items.push({ group: name, folded, entries, y, tall: GROUP });
      y += GROUP;
    }
    if (!folded) for (const entry of entries) { state.items.push({ ...entry, y, of: name }); y += entry.tall + (entry.tall > 8 ? 2 : 0); }
  }
  state.total = y;
  state.height = Math.round(Math.min(Math.max(y + AXIS + 2, 120), room + AXIS));
  state.scroll = Math.max(0, Math.min(state.scroll, y - (state.height - AXIS)));
}
