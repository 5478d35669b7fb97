// Buttons, pointers and keys, and the start of the page.

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
  if (state.head.beside) await compareWith(1);
  document.documentElement.dataset.ready = "yes";
}
window.pipesim = { state, retime, parseTable, tableText, look, pan, zoom, fit, draw, taskAt, select, about, compareWith, move, Chart };
start();
