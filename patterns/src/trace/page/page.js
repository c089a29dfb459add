"use strict";
// The page holds only the rows that are in view, so that ten thousand calls are as quick as ten.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const grid = $("rows"), scroller = $("scroll");
const END = Math.max(data.end, 1);

// the tree: places, and the calls of places with more than one
const places = data.nodes.map(([above, name], id) => ({
  id, name: name || "run", above, kids: [], calls: [], notes: [], open: true,
  from: Infinity, to: 0, cost: 0, unpriced: 0, count: 0, key: false, bad: 0,
}));
places.forEach((place) => { if (place.above !== null) places[place.above].kids.push(place); });
for (const [at, node, text] of data.notes) places[node].notes.push([at, text]);
data.calls.forEach((call, n) => {
  call.id = n;
  call.o ??= "ok";
  call.w ??= [];
  call.x ??= [];
  call.bad = call.o === "failed" || call.o === "unfinished";
  places[call.n].calls.push(call);
  for (let place = places[call.n]; place; place = place.above === null ? null : places[place.above]) {
    place.from = Math.min(place.from, call.t[0]);
    place.to = Math.max(place.to, call.t[1], ...call.x.map((tool) => tool[1]));
    place.count++;
    place.key ||= !!call.k;
    place.bad += call.bad ? 1 : 0;
    if (call.c === null || call.c === undefined) place.unpriced++; else place.cost += call.c;
  }
});
const many = data.calls.length > 300;
for (const place of places) if (place.above !== null && (place.kids.length > 40 || (many && place.calls.length > 1))) place.open = false;

let rows = [], active = 0, selected = -1, from = 0, to = END, query = "";

const single = (place) => place.calls.length === 1 && !place.kids.length;
function flatten() {
  const keep = rows[active];
  rows = [];
  const matches = query ? places.map((place) => pathOf(place).toLowerCase().includes(query)) : null;
  // a place is shown when it or one above or below it matches
  const shown = matches ? [...matches] : null;
  if (shown) for (let n = places.length - 1; n > 0; n--) if (shown[n]) shown[places[n].above] = true;
  const walk = (place, level, inside) => {
    if (shown && !shown[place.id] && !inside) return;
    inside ||= !!matches && matches[place.id];
    rows.push({ place, call: single(place) ? place.calls[0] : null, level });
    if (!place.open && !(shown && !inside)) return;
    if (place.calls.length > (place.kids.length ? 0 : 1)) place.calls.forEach((call, n) => rows.push({ place, call, level: level + 1, own: n + 1 }));
    for (const kid of place.kids) walk(kid, level + 1, inside);
  };
  if (places.length) walk(places[0], 1, false);
  const again = keep ? rows.findIndex((row) => row.place === keep.place && row.call === keep.call) : 0;
  active = again >= 0 ? again : Math.min(active, Math.max(rows.length - 1, 0));
  grid.setAttribute("aria-rowcount", rows.length);
  grid.style.height = rows.length * height() + "px";
  for (const element of pool.values()) element.remove();
  pool.clear();
  render();
}
function pathOf(place) {
  const names = [];
  for (let p = place; p && p.above !== null; p = places[p.above]) names.unshift(p.name);
  return names.join("/");
}
const expandable = (row) => !row.own && (row.place.kids.length > 0 || row.place.calls.length > 1);
const height = () => (matchMedia("(max-width: 700px)").matches ? 36 : 28);
const time = (us) => {
  const s = us / 1e6;
  return s >= 100 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : s >= 10 ? `${s.toFixed(1)} s` : s >= 1 ? `${s.toFixed(2)} s` : `${(us / 1e3).toFixed(s >= 0.01 ? 0 : 1)} ms`;
};
const money = (usd) => (usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(6).replace(/0+$/, "")}` : `$${usd.toFixed(4)}`);
const waited = (call) => call.w.reduce((sum, [a, b]) => sum + b - a, 0);

const pool = new Map();
function render() {
  const h = height(), top = scroller.scrollTop, view = scroller.clientHeight || 600;
  const first = Math.max(0, Math.floor(top / h) - 8), last = Math.min(rows.length, Math.ceil((top + view) / h) + 8);
  for (const [n, element] of pool) if ((n < first || n >= last) && n !== active) { element.remove(); pool.delete(n); }
  const wanted = [];
  for (let n = first; n < last; n++) wanted.push(n);
  if (active < rows.length && (active < first || active >= last)) wanted.push(active);
  for (const n of wanted) {
    let element = pool.get(n);
    if (!element) { element = make(rows[n], n); pool.set(n, element); grid.append(element); }
    element.style.top = n * h + "px";
    element.tabIndex = n === active ? 0 : -1;
    element.setAttribute("aria-selected", n === selected);
    bars(element.querySelector(".bar"), rows[n]);
  }
  ticks();
}
function make(row, n) {
  const { place, call } = row;
  const element = document.createElement("div");
  element.className = "row";
  element.setAttribute("role", "row");
  element.setAttribute("aria-level", row.level);
  element.setAttribute("aria-rowindex", n + 1);
  if (expandable(row)) element.setAttribute("aria-expanded", place.open);
  const cell = (name) => {
    const cell = document.createElement("span");
    cell.className = name;
    cell.setAttribute("role", "gridcell");
    element.append(cell);
    return cell;
  };
  const name = cell("name");
  name.style.paddingLeft = (row.level - 1) * 14 + "px";
  const twist = document.createElement("span");
  twist.className = "twist";
  twist.setAttribute("aria-hidden", "true");
  twist.textContent = expandable(row) ? (place.open ? "▾" : "▸") : "";
  name.append(twist);
  const key = call ? call.k : place.key;
  if (key) {
    const diamond = document.createElement("span");
    diamond.className = "diamond";
    diamond.textContent = "◆ ";
    diamond.setAttribute("role", "img");
    diamond.setAttribute("aria-label", "on the critical path");
    name.append(diamond);
  }
  const label = row.own ? `call ${row.own}` : place.name;
  name.append(label + (call ? (call.o === "ok" ? "" : ` (${call.o})`) : ` (${place.count})`));
  name.title = pathOf(place) || "the whole run";
  const bar = cell("bar");
  bar.setAttribute("aria-label", call
    ? `from ${time(call.t[0])} to ${time(call.t[1])}, waiting ${time(waited(call))}` + (call.x.length ? `, then tools: ${call.x.map((tool) => tool[2]).join(", ")}` : "")
    : `${place.count} calls` + (place.count ? ` from ${time(place.from)} to ${time(place.to)}` : ""));
  cell("time").textContent = call ? time(call.t[1] - call.t[0]) : place.count ? time(place.to - place.from) : "";
  cell("cost").textContent = call ? (call.c == null ? "?" : money(call.c)) : place.unpriced ? "?" : money(place.cost);
  element.addEventListener("click", (event) => {
    active = n;
    if (expandable(row) && event.target.closest(".name")) toggle(row);
    else if (!dragged) select(n);
    focusRow();
  });
  return element;
}
function bars(bar, row) {
  const wide = to - from;
  const piece = (a, b, name) => {
    if (b < from || a > to) return "";
    const left = (Math.max(a, from) - from) / wide * 100, width = (Math.min(b, to) - Math.max(a, from)) / wide * 100;
    return `<i class="${name}" style="left:${left.toFixed(3)}%;width:${width.toFixed(3)}%"></i>`;
  };
  const { place, call } = row;
  let html = "";
  if (call) {
    const name = `work${call.k ? " key" : ""}${call.bad || call.o === "cancelled" ? " bad" : ""}`;
    let at = call.t[0];
    for (const [a, b] of call.w) {
      if (a > at) html += piece(at, a, name);
      html += piece(a, b, "wait");
      at = b;
    }
    if (at < call.t[1] || !call.w.length) html += piece(at, call.t[1], name);
    for (const [a, b] of call.x) html += piece(a, b, "tool");
    if (call.f !== undefined && call.f >= from && call.f <= to) html += `<i class="first" style="left:${((call.f - from) / wide * 100).toFixed(3)}%"></i>`;
  } else if (place.count) {
    html = piece(place.from, place.to, `work span${place.key ? " key" : ""}${place.bad === place.count ? " bad" : ""}`);
  }
  bar.innerHTML = html; // numbers and class names of this script alone
}
function ticks() {
  const wide = to - from, rough = wide / (scroller.clientWidth < 700 ? 3 : 6);
  const unit = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough));
  const line = $("ticks");
  line.replaceChildren();
  for (let at = Math.ceil(from / step) * step; at <= from + wide * 0.93; at += step) {
    const tick = document.createElement("b");
    tick.style.left = (at - from) / wide * 100 + "%";
    tick.textContent = at === 0 ? "0" : time(at);
    line.append(tick);
  }
}
function zoom(factor, middle = (from + to) / 2) {
  const wide = Math.min(END, Math.max(50, (to - from) * factor));
  window_(middle - (middle - from) / (to - from) * wide, wide);
}
function window_(start, wide) {
  from = Math.max(0, Math.min(start, END - wide));
  to = from + wide;
  render();
}
const pan = (share) => window_(from + (to - from) * share, to - from);
function toggle(row, open = !row.place.open) {
  row.place.open = open;
  flatten();
}
function focusRow() {
  const h = height(), top = active * h;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + h > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + h - scroller.clientHeight;
  render();
  pool.get(active)?.focus({ preventScroll: true });
}
function move(n) {
  active = Math.max(0, Math.min(rows.length - 1, n));
  focusRow();
}
function select(n) {
  selected = n;
  details(rows[n]);
  render();
}
function details({ place, call, own }) {
  const body = $("details-body");
  body.replaceChildren();
  $("details-title").textContent = (pathOf(place) || "The whole run") + (own ? `, call ${own}` : "");
  const list = document.createElement("dl");
  list.className = "facts";
  const fact = (name, value) => {
    const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    box.append(dt, dd);
    list.append(box);
  };
  if (call) {
    fact("Outcome", call.o + (call.r ? `: ${call.r}` : ""));
    if (call.m !== undefined) fact("Model", data.models[call.m]);
    fact("From, to", `${time(call.t[0])} – ${time(call.t[1])}`);
    fact("Time", time(call.t[1] - call.t[0]));
    if (call.f !== undefined) fact("First text after", time(call.f - call.t[0]));
    for (const [a, b, why] of call.w) fact(`Waited for ${why}`, time(b - a));
    for (const [a, b, name] of call.x) fact(`Then ran ${name}`, time(b - a));
    if (call.a) fact("Failed attempts", call.a);
    fact("Tokens", `${call.u[0]} + ${call.u[1]}` + (call.u[2] ? `, ${call.u[2]} from the cache` : ""));
    fact("Cost", call.c == null ? "unknown" : money(call.c));
    fact("Critical path", call.k ? "yes" : "no");
  } else {
    fact("Calls", place.count);
    if (place.count) fact("From, to", `${time(place.from)} – ${time(place.to)}`);
    fact("Cost", place.unpriced ? `${money(place.cost)} and more, which is unknown` : money(place.cost));
  }
  body.append(list);
  const notes = [];
  for (let p = place; p; p = p.above === null ? null : places[p.above]) if (p === place || call) notes.push(...p.notes);
  if (notes.length && !own) {
    const list = document.createElement("ul");
    list.className = "notes";
    notes.sort((a, b) => a[0] - b[0]);
    for (const [at, text] of notes.slice(0, 200)) {
      const item = document.createElement("li");
      item.textContent = `${time(at)}: ${text}`;
      list.append(item);
    }
    body.append(title("What the patterns told"), list);
  }
  if (call) {
    if (call.request) for (const [name, text] of turns(call.request)) body.append(title(name), block(name, text));
    if (call.reply) body.append(title("Reply"), block("Reply", said(call.reply.content ?? call.reply.partial ?? "")));
  }
  $("details").hidden = false;
}
function title(text) {
  const element = document.createElement("h3");
  element.textContent = text;
  return element;
}
function block(name, text) {
  const element = document.createElement("pre");
  element.textContent = text;
  element.tabIndex = 0;
  element.setAttribute("role", "region");
  element.setAttribute("aria-label", name);
  return element;
}
function turns(request) {
  const out = request.system ? [["System prompt", request.system]] : [];
  (request.messages ?? []).forEach((message, n) => out.push([`Message ${n + 1}: ${message.role}`, said(message.content)]));
  return out;
}
function said(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content, null, 2);
  return content.map((block) => (block.type === "text" ? block.text : JSON.stringify(block, null, 2))).join("\n\n");
}

grid.addEventListener("keydown", (event) => {
  const row = rows[active];
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor(scroller.clientHeight / height()) - 1);
  const acts = {
    ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1),
    PageDown: () => move(active + page), PageUp: () => move(active - page),
    Home: () => move(0), End: () => move(rows.length - 1),
    ArrowRight: () => {
      if (event.shiftKey) return pan(0.2);
      if (expandable(row) && !row.place.open) { toggle(row, true); focusRow(); } else move(active + 1);
    },
    ArrowLeft: () => {
      if (event.shiftKey) return pan(-0.2);
      if (expandable(row) && row.place.open) { toggle(row, false); focusRow(); return; }
      let n = active;
      while (n > 0 && rows[n].level >= row.level) n--;
      move(n);
    },
    Enter: () => select(active), " ": () => select(active),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => window_(0, END),
  };
  if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
});
scroller.addEventListener("scroll", () => requestAnimationFrame(render), { passive: true });
scroller.addEventListener("wheel", (event) => {
  const bar = event.target.closest(".bar");
  if (!bar || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  const box = bar.getBoundingClientRect();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, from + (event.clientX - box.left) / box.width * (to - from));
}, { passive: false });
let drag = null, dragged = false;
grid.addEventListener("pointerdown", (event) => {
  const bar = event.target.closest(".bar");
  dragged = false;
  if (bar && to - from < END) drag = { x: event.clientX, from, width: bar.clientWidth };
});
addEventListener("pointermove", (event) => {
  if (!drag) return;
  if (Math.abs(event.clientX - drag.x) > 3) dragged = true;
  window_(drag.from - (event.clientX - drag.x) / drag.width * (to - from), to - from);
});
addEventListener("pointerup", () => { drag = null; });
addEventListener("resize", () => { grid.style.height = rows.length * height() + "px"; render(); });
$("in").onclick = () => zoom(0.5);
$("out").onclick = () => zoom(2);
$("earlier").onclick = () => pan(-0.25);
$("later").onclick = () => pan(0.25);
$("all").onclick = () => window_(0, END);
$("open").onclick = () => { for (const place of places) place.open = true; flatten(); };
$("close").onclick = () => { for (const place of places) place.open = place.above === null; flatten(); };
$("find").oninput = (event) => { query = event.target.value.trim().toLowerCase(); flatten(); };
$("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};
$("tools").hidden = !data.calls.some((call) => call.x.length);
$("timeline").hidden = false;
flatten();
