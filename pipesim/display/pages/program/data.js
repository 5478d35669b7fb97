// The columns of a page: read, unpacked, and what is known of them.

const $ = (id) => document.getElementById(id);
const LABELS = 3000, EXACT = 250000, AXIS = 24, GROUP = 20;
let GUTTER = 168;

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
