"use strict";
// The charts of a page of pipesim: drawn row by row into pixels, from levels of detail until all columns are there.
(() => {
  const $ = (id) => document.getElementById(id);
  const LABELS = 3000, EXACT = 250000, AXIS = 24, GROUP = 20;
  let GUTTER = 168;

  // --- data -------------------------------------------------------------------------------------------------------

  async function inflate(id) {
    const text = $(id).textContent.trim();
    const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text)
      : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const WIDE = new Set(["start", "duration", "bytes", "slack", "step_time", "step_value"]);

  // A column: byte planes, lowest first; an odd value is a negative one; perhaps differences from the value before.
  function unpack(bytes, layout) {
    const columns = {};
    let at = 0;
    for (const [name, length, planes, differs] of layout) {
      const column = WIDE.has(name) ? new Float64Array(length) : new Int32Array(length);
      let before = 0;
      for (let n = 0; n < length; n++) {
        let value = bytes[at + n], scale = 256;
        for (let plane = 1; plane < planes; plane++, scale *= 256) value += bytes[at + plane * length + n] * scale;
        value = value % 2 ? -(value + 1) / 2 : value / 2;
        if (differs) value = before += value;
        column[n] = value;
      }
      columns[name] = column;
      at += planes * length;
    }
    return columns;
  }

  class Chart {
    constructor(head, number) {
      Object.assign(this, head);
      this.number = number;
      this.columns = null;
      this.detail = [];
      this.faded = null; // of a comparison: tasks that are the same in both
    }
    async loadCoarse() {
      if (!this.levels.length) return;
      const bytes = await inflate(`coarse${this.number}`);
      let at = 0;
      for (const count of this.levels) {
        const cells = this.rows.length * count;
        this.detail.push({ count, kind: bytes.subarray(at, at + cells), part: bytes.subarray(at + cells, at + 2 * cells) });
        at += 2 * cells;
      }
    }
    async loadColumns() {
      if (!this.loading) {
        this.loading = inflate(`columns${this.number}`).then((bytes) => { this.columns = unpack(bytes, this.layout); });
      }
      await this.loading;
    }
    // The chunk of a task among those of its device decides how light it is.
    shade(task) {
      if (!this.shades) {
        const { stage, source, kind } = this.columns, held = this.devices.map(() => new Set());
        for (let t = 0; t < kind.length; t++) if (kind[t] < 5) held[source[t]].add(stage[t]);
        this.shades = held.map((stages) => new Map([...stages].sort((a, b) => a - b).map((s, n) => [s, n])));
      }
      return (this.shades[this.columns.source[task]].get(this.columns.stage[task]) || 0) % 4;
    }
    label(task) {
      const c = this.columns, m = c.microbatch[task] >= 0 ? c.microbatch[task] : "";
      const from = this.devices[c.source[task]], to = this.devices[c.target[task]];
      const where = c.kind[task] < 5 ? ` on ${from}` : ` from ${from} to ${to}`;
      return `${c.stage[task]}${this.letters[c.kind[task]]}${m}${where}`;
    }
    // The first position in a row whose task ends after a time; tracks make ends unordered, so go back a little.
    first(row, time) {
      const c = this.columns;
      let low = this.row_starts[row], high = this.row_starts[row + 1];
      const begin = low;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (c.start[c.row_task[middle]] < time) low = middle + 1; else high = middle;
      }
      const back = this.rows[row].kind === "link" ? 24 : 1;
      return Math.max(begin, low - back);
    }
  }

  // --- state ------------------------------------------------------------------------------------------------------

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

  // --- rows -------------------------------------------------------------------------------------------------------

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

  // --- drawing ----------------------------------------------------------------------------------------------------

  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d", { alpha: false });
  let acc = new Float32Array(0), pixels = null, waiting = false;

  function resize() {
    arrange();
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 800;
    canvas.style.height = `${state.height}px`;
    GUTTER = Math.round(Math.min(168, width * 0.3));
    const w = Math.round(width * ratio), h = Math.round(state.height * ratio);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; pixels = null; }
  }

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  function draw() {
    const began = performance.now(), ratio = window.devicePixelRatio || 1;
    const left = Math.round(GUTTER * ratio), top = Math.round(AXIS * ratio);
    const width = canvas.width - left, height = canvas.height - top;
    if (width <= 0 || height <= 0) return;
    if (!pixels || pixels.width !== width || pixels.height !== height) pixels = new ImageData(width, height);
    const image = new Uint32Array(pixels.data.buffer), [r, g, b] = looks.back;
    image.fill((255 << 24) | (b << 16) | (g << 8) | r);
    if (acc.length < 4 * width) acc = new Float32Array(4 * width);
    const visible = state.items.filter((item) => item.y + item.tall > state.scroll && item.y < state.scroll + height / ratio);
    for (const item of visible) {
      const y0 = Math.round((item.y - state.scroll) * ratio), y1 = Math.max(y0 + 1, Math.round((item.y + item.tall - state.scroll) * ratio));
      if (item.group !== undefined && !item.folded) continue;
      acc.fill(0, 0, 4 * width);
      if (item.group !== undefined) {
        const spans = item.entries.filter((entry) => entry.row !== undefined && entry.chart.rows[entry.row].kind === "lane");
        const rows = spans.length ? spans : item.entries.filter((entry) => entry.row !== undefined);
        for (const entry of rows) fill(entry.chart, entry.row, width, 1 / rows.length, -1, 1);
        paint(image, width, height, y0 + 2, y1 - 2);
      } else if (item.row !== undefined) {
        const tracks = item.chart.columns ? tracksOf(item.chart, item.row) : 1;
        for (let track = 0; track < tracks; track++) {
          if (track) acc.fill(0, 0, 4 * width);
          fill(item.chart, item.row, width, 1, tracks > 1 ? track : -1, ratio);
          paint(image, width, height, Math.round(y0 + (y1 - y0) * track / tracks), Math.max(Math.round(y0 + (y1 - y0) * (track + 1) / tracks) - (tracks > 1 && y1 - y0 > 3 * tracks ? 1 : 0), y0 + 1));
        }
      }
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = css(looks.back);
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.putImageData(pixels, left, top);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const w = canvas.width / ratio - GUTTER;
    annotate(visible, w);
    axis(w);
    const took = performance.now() - began;
    state.frames.push(took);
    if (state.frames.length > 600) state.frames.shift();
    if (state.painted === null) { state.painted = performance.now(); document.documentElement.dataset.painted = "yes"; }
  }

  const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

  function tracksOf(chart, row) {
    if (chart.rows[row].kind === "lane") return 1;
    if (!chart.tracks) chart.tracks = new Map();
    if (!chart.tracks.has(row)) {
      let most = 0;
      for (let n = chart.row_starts[row]; n < chart.row_starts[row + 1]; n++) most = Math.max(most, chart.columns.row_track[n]);
      chart.tracks.set(row, most + 1);
    }
    return chart.tracks.get(row);
  }

  function color(chart, task) {
    const [r, g, b] = looks.kinds[chart.columns.kind[task]], shade = chart.columns.kind[task] < 5 ? chart.shade(task) * 0.13 : 0;
    let mix = shade, [x, y, z] = looks === DARK ? [0, 0, 0] : [255, 255, 255];
    const faded = (state.hits && !state.hits.marks[task] && state.hits.chart === chart) || (chart.faded && chart.faded[task]);
    if (faded) { mix = 0.78; [x, y, z] = looks.back; }
    return [r + (x - r) * mix, g + (y - g) * mix, b + (z - b) * mix];
  }

  // Add the colours of a row to `acc`: red, green, blue, and the covered part of each pixel.
  function fill(chart, row, width, weight, track, ratio) {
    const scale = width / (state.t1 - state.t0);
    const exact = chart.columns && (!chart.detail.length || visibleSpans() <= EXACT);
    if (!exact) { if (chart.detail.length) fillCoarse(chart, row, width, weight, scale); return; }
    const c = chart.columns, end = chart.row_starts[row + 1];
    for (let n = chart.first(row, state.t0); n < end; n++) {
      const task = c.row_task[n], from = (c.start[task] - state.t0) * scale;
      if (from >= width) break;
      if (track >= 0 && c.row_track[n] !== track) continue;
      const to = from + c.duration[task] * scale;
      if (to <= 0) continue;
      const [r, g, b] = color(chart, task);
      put(from, to, width, r, g, b, weight, to - from > 5 * ratio);
    }
  }

  function put(from, to, width, r, g, b, weight, edge) {
    const a = Math.max(0, from), z = Math.min(width, to);
    for (let x = Math.floor(a); x < z; x++) {
      let part = (Math.min(z, x + 1) - Math.max(a, x)) * weight;
      if (edge && x === Math.floor(from)) part *= 0.45;
      const at = 4 * x;
      acc[at] += r * part; acc[at + 1] += g * part; acc[at + 2] += b * part; acc[at + 3] += part;
    }
  }

  function fillCoarse(chart, row, width, weight, scale) {
    const level = chart.detail.find((one) => one.count * (state.t1 - state.t0) / chart.makespan >= width) || chart.detail[chart.detail.length - 1];
    const step = chart.makespan / level.count, low = Math.max(0, Math.floor(state.t0 / step));
    const high = Math.min(level.count, Math.ceil(state.t1 / step));
    for (let n = low; n < high; n++) {
      const part = level.part[row * level.count + n] / 255;
      if (!part) continue;
      const [r, g, b] = looks.kinds[level.kind[row * level.count + n]];
      if (step * scale <= 1) { // less than a pixel: all of it in one
        const x = ((n + 0.5) * step - state.t0) * scale;
        if (x < 0 || x >= width) continue;
        const at = 4 * (x | 0), share = weight * part * step * scale;
        acc[at] += r * share; acc[at + 1] += g * share; acc[at + 2] += b * share; acc[at + 3] += share;
        continue;
      }
      put((n * step - state.t0) * scale, ((n + 1) * step - state.t0) * scale, width, r, g, b, weight * part, false);
    }
  }

  function visibleSpans() {
    const share = (state.t1 - state.t0) / span();
    let count = 0;
    for (const chart of [shown(), other()]) if (chart) count += chart.row_starts[chart.row_starts.length - 1] * share;
    return count;
  }

  function paint(image, width, height, y0, y1) {
    if (y1 <= 0 || y0 >= height) return;
    const line = Math.max(0, y0), [r, g, b] = looks.back, begin = line * width;
    for (let x = 0; x < width; x++) {
      const at = 4 * x, part = acc[at + 3];
      if (part <= 0) continue;
      const over = part > 1 ? 1 / part : 1, rest = part > 1 ? 0 : 1 - part;
      image[begin + x] = (255 << 24) | ((acc[at + 2] * over + b * rest) << 16) | ((acc[at + 1] * over + g * rest) << 8) | (acc[at] * over + r * rest);
    }
    for (let y = line + 1; y < Math.min(y1, height); y++) image.copyWithin(y * width, begin, begin + width);
  }

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

  // --- moving about -----------------------------------------------------------------------------------------------

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

  // --- what is known of a task ------------------------------------------------------------------------------------

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

  // --- search -----------------------------------------------------------------------------------------------------

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
      const kind = chart.kinds.findIndex((name) => name.replace(" ", "-") === word || name === word);
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

  // --- two timelines ----------------------------------------------------------------------------------------------

  function keys(chart, devices) {
    const c = chart.columns, place = chart.devices.map((name) => { if (!devices.has(name)) devices.set(name, devices.size); return devices.get(name); });
    const found = new Map(), seen = new Map();
    for (let t = 0; t < c.kind.length; t++) {
      const plain = `${c.kind[t]} ${c.stage[t]} ${c.microbatch[t]} ${place[c.source[t]]} ${place[c.target[t]]}`;
      const many = seen.get(plain) || 0;
      seen.set(plain, many + 1);
      found.set(many ? `${plain} ${many}` : plain, t);
    }
    return found;
  }

  async function compareWith(number) {
    for (const chart of state.charts) chart.faded = null;
    state.second = number;
    $("second").value = String(number);
    $("differences").textContent = "";
    if (number >= 0) {
      const a = shown(), b = other();
      await Promise.all([a.loadColumns(), b.loadCoarse(), b.loadColumns()]);
      const devices = new Map(), left = keys(a, devices), right = keys(b, devices);
      a.faded = new Uint8Array(a.columns.kind.length);
      b.faded = new Uint8Array(b.columns.kind.length);
      const moved = [];
      let same = 0;
      for (const [key, t] of left) {
        const u = right.get(key);
        if (u === undefined) continue;
        const shift = b.columns.start[u] - a.columns.start[t], longer = b.columns.duration[u] - a.columns.duration[t];
        if (shift || longer) moved.push({ t, shift, longer });
        else { a.faded[t] = b.faded[u] = 1; same++; }
      }
      moved.sort((x, y) => Math.abs(y.shift) + Math.abs(y.longer) - Math.abs(x.shift) - Math.abs(x.longer));
      const more = b.makespan - a.makespan;
      const lines = [`A ${a.name}: ${time(a.makespan)}; B ${b.name}: ${time(b.makespan)}, ${more === 0 ? "the same" : `${time(Math.abs(more))} ${more > 0 ? "longer" : "shorter"}`}`];
      lines.push(`${same} tasks at the same time, ${moved.length} at another, ${left.size - same - moved.length} only in A, ${right.size - same - moved.length} only in B`);
      for (const { t, shift, longer } of moved.slice(0, 3)) lines.push(`${a.label(t)}: ${shift ? `${time(Math.abs(shift))} ${shift > 0 ? "later" : "earlier"}` : ""}${shift && longer ? ", " : ""}${longer ? `${time(Math.abs(longer))} ${longer > 0 ? "longer" : "shorter"}` : ""}`);
      $("differences").textContent = lines.join("\n");
    }
    change();
    fit();
  }

  // --- schedules --------------------------------------------------------------------------------------------------

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

  // --- controls ---------------------------------------------------------------------------------------------------

  function controls(section) {
    const many = state.charts.length > 1, editing = state.head.editing;
    const names = state.charts.map((chart, n) => `<option value="${n}"></option>`).join("");
    section.innerHTML = `
      <div class="bar controls">
        <span class="group" role="group" aria-label="zoom"><button id="in" aria-label="zoom in">+</button><button id="out" aria-label="zoom out">−</button><button id="fit" aria-label="show all of the time">all</button></span>
        <label>search <input id="search" type="search" placeholder="0F3, F3, mb:3, gpu2" aria-label="search tasks"></label>
        <span class="group"><button id="before" aria-label="previous match">◂</button><button id="after" aria-label="next match">▸</button><span id="found" class="status" role="status"></span></span>
        <label>group by <select id="group"><option>node</option><option>stage</option><option value="none">nothing</option></select></label>
        <span class="group" role="group" aria-label="groups of lanes"><button id="fold">fold</button><button id="unfold">unfold</button></span>
        <span class="group" role="group" aria-label="height of lanes"><button id="higher" aria-label="higher lanes">↕ +</button><button id="lower" aria-label="lower lanes">↕ −</button></span>
        <label><input id="links" type="checkbox" checked>links</label><label><input id="load" type="checkbox">load</label>
        <label><input id="memory" type="checkbox">memory</label><label><input id="critical" type="checkbox">critical path</label>
        <label ${many ? "" : "hidden"}>timeline A <select id="first">${names}</select></label>
        <label ${many ? "" : "hidden"}>beside B <select id="second"><option value="-1">nothing</option>${names}</select></label>
        ${editing ? `<button id="editing" aria-pressed="false">edit schedule</button><span class="status" id="refused"></span>` : ""}
        <label>colours <select id="theme"><option value="">of the system</option><option>light</option><option>dark</option></select></label>
      </div>
      <canvas id="plot"></canvas>
      <div class="under"><div id="details" role="status" aria-live="polite"></div><div class="legend" aria-label="colours of tasks"></div></div>
      <p id="differences" class="status" role="status" style="white-space: pre-line"></p>
      <div id="edit" hidden>
        <div class="bar"><button id="undo" disabled>undo</button><button id="redo" disabled>redo</button><button id="reset">as it was</button><button id="save">save as CSV</button><span id="edited" class="status" role="status"></span></div>
        <p id="wrong" class="wrong" role="alert"></p>
        <details><summary>the table</summary><textarea id="table" spellcheck="false" aria-label="the schedule, a line for each rank"></textarea><button id="apply">check and time this table</button></details>
      </div>
      <details class="controls"><summary>keyboard</summary><p id="keys">In the chart: ← → pan, ↑ ↓ scroll, + − zoom, 0 all; [ ] previous and next task of a lane, p what it waited for, Enter fold its group, / search, n N next and previous match, c critical path, Escape nothing selected; while editing, Shift with ← → moves the selected action. Mouse: drag pans, the wheel scrolls, with Ctrl it zooms, with Shift it pans; a click selects a task or folds a group.</p></details>`;
    canvas.id = "plot";
    section.querySelector("#plot").replaceWith(canvas);
    Object.entries({ tabindex: "0", role: "application", "aria-label": `timeline of ${shown().tasks} tasks on ${shown().devices.length} devices, ${time(shown().makespan)}`, "aria-describedby": "keys" }).forEach(([name, value]) => canvas.setAttribute(name, value));
    for (const id of ["first", "second"]) state.charts.forEach((chart, n) => { $(id).options[n + (id === "second" ? 1 : 0)].textContent = chart.name; });
    const hint = document.createElement("div");
    hint.id = "hint";
    hint.hidden = true;
    hint.setAttribute("aria-hidden", "true");
    document.body.append(hint);
    if (editing && editing.refused) { $("editing").disabled = true; $("refused").textContent = `(not here: ${editing.refused})`; }
  }

  function legend() {
    const kinds = new Set();
    for (const chart of [shown(), other()]) if (chart && chart.columns) for (const kind of chart.columns.kind) kinds.add(kind);
    document.querySelector(".legend").replaceChildren(...[...kinds].sort().map((kind) => {
      const entry = document.createElement("span"), box = document.createElement("i");
      box.style.background = css(looks.kinds[kind]);
      entry.append(box, shown().kinds[kind]);
      return entry;
    }));
  }

  function theme(name) {
    if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
    const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    looks = dark ? DARK : LIGHT;
    legend();
    redraw();
  }

  function toggle(name) {
    if (state.folded.has(name)) state.folded.delete(name); else state.folded.add(name);
    change();
  }

  function connect() {
    const on = (id, event, action) => $(id) && $(id).addEventListener(event, action);
    on("in", "click", () => zoom(1.6));
    on("out", "click", () => zoom(1 / 1.6));
    on("fit", "click", fit);
    on("search", "input", (event) => search(event.target.value));
    on("search", "keydown", (event) => { if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1); if (event.key === "Escape") { event.target.value = ""; search(""); canvas.focus(); } });
    on("before", "click", () => nextHit(-1));
    on("after", "click", () => nextHit(1));
    on("group", "change", (event) => { state.group = event.target.value; state.folded.clear(); change(); });
    on("fold", "click", () => { state.items.forEach((item) => { if (item.group !== undefined) state.folded.add(item.group); }); change(); });
    on("unfold", "click", () => { state.folded.clear(); change(); });
    const height = (factor) => { const now = state.items.find((item) => item.row !== undefined); state.tall = Math.max(3, Math.min(60, Math.round((state.tall || (now ? now.tall : 16)) * factor))); change(); };
    on("higher", "click", () => height(1.4));
    on("lower", "click", () => height(1 / 1.4));
    for (const id of ["links", "load", "memory", "critical"]) on(id, "change", (event) => { state[id] = event.target.checked; change(); });
    on("first", "change", async (event) => { state.first = Number(event.target.value); await shown().loadCoarse(); await shown().loadColumns(); search(state.query); select(null); legend(); await compareWith(state.second); });
    on("second", "change", (event) => compareWith(Number(event.target.value)));
    on("theme", "change", (event) => theme(event.target.value));
    on("editing", "click", () => startEditing(!state.editing));
    on("undo", "click", () => { if (history.done.length) { history.undone.push(state.table); show(history.done.pop(), "undone:"); } });
    on("redo", "click", () => { if (history.undone.length) { history.done.push(state.table); show(history.undone.pop(), "done again:"); } });
    on("reset", "click", () => apply(parseTable(state.head.editing.table.map((row) => row.join(",") || ",").join("\n")), "as it was:"));
    on("save", "click", save);
    on("apply", "click", () => { try { apply(parseTable($("table").value), "the table takes"); } catch (error) { $("wrong").textContent = error.message; } });
    pointers();
    canvas.addEventListener("keydown", key);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme($("theme").value));
    new ResizeObserver(change).observe(canvas.parentElement);
    let kept = "";
    window.addEventListener("beforeprint", () => { kept = $("theme").value; theme("light"); resize(); draw(); });
    window.addEventListener("afterprint", () => theme(kept));
  }

  function pointers() {
    let drag = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event), picked = taskAt(x, y);
      const moves = state.editing && picked && picked.chart === state.charts[state.edit] && picked.chart.rows[picked.row].kind === "lane";
      drag = { x, y, t0: state.t0, t1: state.t1, scroll: state.scroll, far: false, moves: moves ? picked : null };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag) {
        drag.far = drag.far || Math.hypot(x - drag.x, y - drag.y) > 4;
        if (drag.moves) { canvas.style.cursor = "grabbing"; return; }
        if (!drag.far) return;
        const by = ((drag.x - x) / (canvas.clientWidth - GUTTER)) * (drag.t1 - drag.t0);
        state.scroll = Math.max(0, Math.min(drag.scroll + drag.y - y, Math.max(0, state.total - (state.height - AXIS))));
        look(drag.t0 + by, drag.t1 + by);
        return;
      }
      const picked = taskAt(x, y), hint = $("hint");
      canvas.style.cursor = picked ? "pointer" : "default";
      hint.hidden = !picked;
      if (picked) {
        hint.textContent = about(picked);
        hint.style.left = `${Math.min(event.clientX + 14, window.innerWidth - hint.offsetWidth - 8)}px`;
        hint.style.top = `${Math.min(event.clientY + 16, window.innerHeight - hint.offsetHeight - 8)}px`;
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = place(event), was = drag;
      drag = null;
      if (!was) return;
      if (was.far && was.moves) { drop(was.moves, timeAt(x)); return; }
      if (was.far) return;
      const item = y > AXIS && itemAt(y);
      if (item && item.group !== undefined && x < GUTTER) { toggle(item.group); return; }
      select(taskAt(x, y));
    });
    canvas.addEventListener("pointerleave", () => { $("hint").hidden = true; });
    canvas.addEventListener("wheel", (event) => {
      const [x] = place(event);
      if (event.ctrlKey || event.altKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(-event.deltaY / 300), timeAt(Math.max(x, GUTTER))); }
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan((event.deltaX || event.deltaY) / 900); }
      else if (state.total > state.height - AXIS) {
        const before = state.scroll;
        scroll(event.deltaY);
        if (state.scroll !== before) event.preventDefault();
      }
    }, { passive: false });
  }

  // An action that is dropped comes before the first other one of its lane whose middle is later.
  function drop({ chart, row, task }, t) {
    const c = chart.columns, from = positionIn(chart, row, task);
    let to = 0;
    for (let n = chart.row_starts[row]; n < chart.row_starts[row + 1]; n++) {
      const one = c.row_task[n];
      if (one !== task && c.start[one] + c.duration[one] / 2 < t) to++;
    }
    move(row, from, to);
  }

  function key(event) {
    const picked = state.selected;
    if (state.editing && event.shiftKey && picked && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      const from = positionIn(picked.chart, picked.row, picked.task);
      move(picked.row, from, from + (event.key === "ArrowLeft" ? -1 : 1));
      event.preventDefault();
      return;
    }
    const actions = {
      ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60),
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit, "[": () => step(-1), "]": () => step(1), p: toHolder,
      Enter: () => picked && toggle(groupOf(picked.chart.rows[picked.row])), "/": () => $("search").focus(), n: () => nextHit(1), N: () => nextHit(-1),
      c: () => { $("critical").click(); }, Escape: () => select(null),
    };
    if (event.ctrlKey || event.metaKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // --- start ------------------------------------------------------------------------------------------------------

  const loaded = new Promise((resolve) => { document.addEventListener("DOMContentLoaded", resolve); });
  async function start() {
    state.head = JSON.parse(new TextDecoder().decode(await inflate("head")));
    state.charts = state.head.charts.map((head, n) => new Chart(head, n));
    if (shown().devices.length > 64) state.links = false;
    controls($("chart"));
    $("links").checked = state.links;
    await shown().loadCoarse();
    connect();
    theme("");
    resize();
    [state.t0, state.t1] = [0, span() * 1.02];
    if (shown().detail.length) draw();
    await loaded;
    await shown().loadColumns();
    legend();
    change();
    draw();
    document.documentElement.dataset.ready = "yes";
  }
  window.pipesim = { state, retime, parseTable, tableText, look, pan, zoom, fit, draw, taskAt, select, about, compareWith, move, Chart };
  start();
})();
