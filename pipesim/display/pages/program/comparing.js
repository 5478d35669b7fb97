// Two timelines side by side, and what differs.

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
