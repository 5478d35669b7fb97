// Spans painted row by row into pixels, from levels of detail until all columns are there.

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
