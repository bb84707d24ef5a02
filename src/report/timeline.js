'use strict';
(() => {
// ---- The profile. A time is hi * UNIT + lo picoseconds, so that none is rounded; a duration is one number.
const UNIT = 2 ** 42, LEFT = 216, RULER = 30, ROW = 17, HEAD = 22, GAP = 5;
const P = JSON.parse(document.getElementById('profile').textContent);
const total = P.planes.reduce((n, p) => n + p.lines.reduce((m, l) => m + l.rows.reduce((a, b) => a + b, 0), 0), 0);
const hi = new Int32Array(total), lo = new Float64Array(total), dur = new Float64Array(total);
const busy = new Float64Array(total), count = new Uint32Array(total);
const name = new Uint32Array(total), detail = new Uint32Array(total);
const lines = [], rows = [];

function bytesOf(id) {
  const node = document.getElementById(id), text = node.textContent;
  node.remove();
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const bytes = new Uint8Array(Math.floor(text.length / 4) * 3);
  let n = 0;
  for (let at = 0; at < text.length; at += 1 << 16) {
    const part = atob(text.slice(at, at + (1 << 16)));
    for (let i = 0; i < part.length; i++) bytes[n++] = part.charCodeAt(i);
  }
  return bytes.subarray(0, n);
}

function decode() {
  const bytes = bytesOf('records');
  let at = 0, i = 0, low = 0, high = 0;
  const number = () => { // into high * UNIT + low
    let b = bytes[at++];
    low = b & 127;
    high = 0;
    for (let scale = 128; b > 127; scale *= 128) {
      b = bytes[at++];
      if (scale < UNIT) low += (b & 127) * scale;
      else high += (b & 127) * (scale / UNIT);
    }
    return low + high * UNIT;
  };
  P.planes.forEach((plane, p) => plane.lines.forEach(l => {
    const line = { plane: p, name: l.name, id: l.id, rows: [], events: 0, folded: false };
    lines.push(line);
    for (const n of l.rows) {
      const row = { line, first: i, end: i + n };
      line.rows.push(row);
      rows.push(row);
      let h = 0, t = 0; // where the last record ended
      for (; i < row.end; i++) {
        number(); t += low; h += high;
        if (t >= UNIT) { t -= UNIT; h++; }
        hi[i] = h; lo[i] = t;
        dur[i] = number(); t += low; h += high;
        if (t >= UNIT) { t -= UNIT; h++; }
        const v = number(), block = v % 2;
        name[i] = (v - block) / 2;
        const c = number();
        if (block) { count[i] = c; busy[i] = number(); }
        else { count[i] = 1; detail[i] = c; busy[i] = dur[i]; }
        line.events += count[i];
      }
    }
  }));
}
decode();
P.planes.forEach(plane => { // steps with exact ends
  plane.bands = plane.steps.map(s => ({ index: s[0], from: BigInt(s[1]), to: BigInt(s[1]) + BigInt(s[2]), outlier: s[3] }));
});

// ---- Levels of detail: of 64 and of 4096 neighbours the time they cover together, and the longest of them.
const levels = [6, 12].map(bits => {
  const n = Math.ceil(total / 2 ** bits), sum = new Float64Array(n), best = new Uint32Array(n);
  for (let i = 0; i < total; i++) {
    const k = i >>> bits;
    if (i % 2 ** bits === 0 || dur[i] > dur[best[k]]) best[k] = i;
    sum[k] += busy[i];
  }
  return { sum, best };
});
function summary(from, to) {
  let sum = 0, best = from;
  for (let i = from; i < to;) {
    const l = i % 4096 === 0 && i + 4096 <= to ? 1 : i % 64 === 0 && i + 64 <= to ? 0 : -1;
    const b = l < 0 ? i : levels[l].best[i >>> (l ? 12 : 6)];
    sum += l < 0 ? busy[i] : levels[l].sum[i >>> (l ? 12 : 6)];
    if (dur[b] > dur[best]) best = b;
    i += l < 0 ? 1 : l ? 4096 : 64;
  }
  return { sum, best };
}

// ---- Times
const big = i => BigInt(hi[i]) * BigInt(UNIT) + BigInt(lo[i]);
const units = [['s', 10n ** 12n], ['ms', 10n ** 9n], ['µs', 10n ** 6n], ['ns', 1000n], ['ps', 1n]];
function exact(ps) { // every digit
  if (!ps) return '0 s';
  const size = ps < 0n ? -ps : ps, [unit, one] = units.find(u => size >= u[1]) || units[4];
  const rest = String(size % one).padStart(String(one).length - 1, '0').replace(/0+$/, '');
  return (ps < 0n ? '−' : '') + size / one + (one > 1n && rest ? '.' + rest : '') + ' ' + unit;
}
function about(ps) { // three digits
  const u = units.find(x => ps >= Number(x[1])) || units[4], v = ps / Number(u[1]);
  return (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(ps ? 2 : 0)) + ' ' + u[0];
}
function parseTime(text) { // "12.5us"; a bare number is nanoseconds
  const m = /^(\d+)(?:\.(\d+))?(ps|ns|us|µs|ms|s)?$/.exec(decodeURIComponent(text || ''));
  if (!m) return null;
  const digits = { ps: 0, ns: 3, us: 6, 'µs': 6, ms: 9, s: 12 }[m[3] || 'ns'];
  return BigInt(m[1] + (m[2] || '').slice(0, digits).padEnd(digits, '0'));
}
const whole = { from: BigInt(P.from_ps), to: BigInt(P.to_ps) };
if (whole.to <= whole.from) whole.to = whole.from + 1000n;

// ---- What is seen
const view = { hi: 0, lo: 0, span: 1 };
let scroll = 0, picked = -1, range = null, matches = null, found = null, hover = -1, pointer = null;
const viewBig = () => BigInt(view.hi) * BigInt(UNIT) + BigInt(Math.floor(view.lo));
const relative = i => (hi[i] - view.hi) * UNIT + (lo[i] - view.lo);
const relativeBig = b => Number(b - viewBig()) - (view.lo - Math.floor(view.lo));
function normalise() {
  const d = Math.floor(view.lo / UNIT);
  view.hi += d;
  view.lo -= d * UNIT;
  const most = Number(whole.to - whole.from) * 1.1;
  const middle = view.span > most ? (view.span - most) / 2 : 0;
  if (middle) { view.lo += middle; view.span = most; }
  const before = relativeBig(whole.from), after = relativeBig(whole.to);
  if (before > view.span * .9) view.lo += before - view.span * .9;
  if (after < view.span * .1) view.lo += after - view.span * .1;
  const e = Math.floor(view.lo / UNIT);
  view.hi += e;
  view.lo -= e * UNIT;
}
function show(from, to) {
  view.hi = Number(from / BigInt(UNIT));
  view.lo = Number(from % BigInt(UNIT));
  view.span = Math.max(Number(to - from), 20);
  normalise();
  changed();
}
function zoom(factor, x) {
  const part = Math.min(Math.max((x - LEFT) / (width - LEFT), 0), 1);
  const span = Math.max(view.span * factor, 20);
  view.lo += (view.span - span) * part;
  view.span = span;
  normalise();
  changed();
}
function pan(part) {
  view.lo += view.span * part;
  normalise();
  changed();
}
let linkTimer = 0;
function changed() {
  redraw();
  clearTimeout(linkTimer);
  linkTimer = setTimeout(() => {
    const from = viewBig(), to = from + BigInt(Math.round(view.span));
    history.replaceState(null, '', `#from=${from < 0n ? 0n : from}ps&to=${to}ps`);
  }, 250);
}
function followLink() {
  const p = new URLSearchParams(location.hash.slice(1)), from = parseTime(p.get('from')), to = parseTime(p.get('to'));
  if (from !== null && to !== null && to > from) show(from, to);
  else show(whole.from, whole.to);
}

// ---- Names
const shortName = i => {
  if (!name[i]) return rowOf(i).line.name === null ? 'busy' : '(no name)';
  const n = P.planes[rowOf(i).line.plane].names[name[i] - 1];
  return P.strings[n[1] >= 0 ? n[1] : n[0]] || '(no name)';
};
function rowOf(i) {
  let a = 0, b = rows.length - 1;
  while (a < b) {
    const m = (a + b) >> 1;
    if (rows[m].end > i) b = m; else a = m + 1;
  }
  return rows[a];
}
const lineName = l => l.name === null ? 'Busy (any operation)' : l.name || '(line ' + l.id + ')';
const ofPlane = new Map(); // colours and texts by plane and name
function labels(plane) {
  if (!ofPlane.has(plane)) {
    ofPlane.set(plane, P.planes[plane].names.map(n => {
      if (!n) return null;
      const text = P.strings[n[1] >= 0 ? n[1] : n[0]] || '(no name)';
      const key = text.replace(/[.\d]+$/, '');
      let h = 0;
      for (let k = 0; k < key.length && k < 80; k++) h = (h * 31 + key.charCodeAt(k)) | 0;
      const shade = dark ? [42 + (h >>> 9) % 12, 54 + (h >>> 5) % 12] : [48 + (h >>> 9) % 15, 68 + (h >>> 5) % 9];
      return { text, color: `hsl(${(h >>> 1) % 360} ${shade[0]}% ${shade[1]}%)` };
    }));
  }
  return ofPlane.get(plane);
}

// ---- The page
const make = (tag, attributes, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
};
const search = make('input', { type: 'search', placeholder: 'Search (/)', 'aria-label': 'Search events by name' });
const hits = make('output', {}), where = make('output', {});
const state = [P.files.some(f => f.damage) && 'damaged', P.notes.length && 'not all is shown'].filter(x => x).join(', ');
const helpButton = make('button', { title: 'Keys (?)' }, '?'), wholeButton = make('button', { title: '0' }, 'Whole');
const canvas = make('canvas', { tabindex: '0', 'aria-label': 'Timeline; press ? for its keys' });
const tip = make('div', { id: 'tip' }), stage = make('div', { id: 'stage' }, canvas, tip);
const panel = make('section', { id: 'details', 'aria-live': 'polite', 'aria-label': 'Details', tabindex: '-1' });
const keys = [['W S', 'zoom in, out at the pointer (also Ctrl and wheel)'], ['A D, ← →', 'left, right'],
  ['↑ ↓', 'scroll (also the wheel)'], ['drag', 'select a range: count, total, mean'],
  ['Shift and drag', 'move the picture'], ['click', 'details of an event; fold a line or a process at its name'],
  ['F', 'fit the event, or the range, into the window'], ['M', 'make a range of the event'],
  [', .', 'the event before, after in its row'], ['/', 'search; Enter, Shift Enter: next, previous'],
  ['0', 'the whole'], ['E', 'fold or unfold all'], ['Esc', 'forget the selection'], ['?', 'this help']];
const close = make('button', {}, 'Close');
const help = make('dialog', { 'aria-label': 'Keys' }, make('h2', {}, 'Keys'),
  make('table', {}, ...keys.map(k => make('tr', {}, make('td', {}, make('kbd', {}, k[0])), make('td', {}, k[1])))),
  make('h2', { style: 'margin-top:14px' }, 'This file'),
  ...P.files.map(f => make('p', {}, f.path + ' (' + f.host + ')' + (f.damage ? ', damaged at ' + f.damage : ''))),
  P.rule ? make('p', {}, 'Steps: ' + P.rule + '.') : '', ...P.notes.map(n => make('p', {}, n)), close);
close.onclick = () => help.close();
document.body.append(make('header', {}, make('b', { title: document.title }, document.title), search, hits,
  make('span', { class: 'fill' }), make('output', { title: P.notes.join(' ') }, state), where, wholeButton, helpButton), stage, panel, help);
helpButton.onclick = () => help.showModal();
wholeButton.onclick = () => { show(whole.from, whole.to); canvas.focus(); };

// ---- Drawing
const pen = canvas.getContext('2d');
let width = 0, height = 0, css = {}, dark = false, pending = false, tracks = [], depth = 0;
const scheme = matchMedia('(prefers-color-scheme: dark)');
function theme() {
  const s = getComputedStyle(document.documentElement);
  dark = scheme.matches;
  for (const k of ['paper', 'ink', 'soft', 'grid', 'panel', 'accent', 'mark', 'on']) css[k] = s.getPropertyValue('--' + k).trim();
  ofPlane.clear();
  redraw();
}
scheme.addEventListener('change', theme);
function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(draw);
}
const foldedPlanes = new Set();
function layout() {
  tracks = [];
  let y = 0, last = -1;
  for (const line of lines) {
    if (line.plane !== last) {
      last = line.plane;
      tracks.push({ y, height: HEAD, plane: last });
      y += HEAD;
    }
    if (foldedPlanes.has(line.plane)) continue;
    const n = line.folded ? 1 : line.rows.length;
    tracks.push({ y, height: n * ROW + GAP, line });
    y += n * ROW + GAP;
  }
  depth = y + 12;
}
function firstAfter(row, ps) { // the first record that ends after view + ps
  let a = row.first, b = row.end;
  while (a < b) {
    const m = (a + b) >> 1;
    if (relative(m) + dur[m] >= ps) b = m; else a = m + 1;
  }
  return a;
}
function nextStart(i, end, ps) { // the first record from i on that starts at or after view + ps
  let step = 1, a = i, b = i + 1;
  while (b < end && relative(b) < ps) { a = b; step *= 2; b = Math.min(end, b + step); }
  if (b > end) b = end;
  a++;
  while (a < b) {
    const m = (a + b) >> 1;
    if (relative(m) < ps) a = m + 1; else b = m;
  }
  return a;
}
function clipText(text, room) {
  const n = Math.floor(room / 6.1);
  return text.length <= n ? text : n < 3 ? '' : text.slice(0, n - 1) + '…';
}
function clipMiddle(text, room) { // the ends tell threads apart
  const n = Math.floor(room / 5.9);
  return text.length <= n ? text : text.slice(0, Math.ceil(n / 2) - 1) + '…' + text.slice(text.length - Math.floor(n / 2));
}
function drawRow(row, y) {
  const w = width - LEFT, scale = w / view.span, names = labels(row.line.plane), idle = row.line.name === null;
  const color = i => idle ? css.accent : name[i] && names[name[i] - 1] ? names[name[i] - 1].color : css.soft;
  let i = firstAfter(row, 0);
  while (i < row.end) {
    const x = relative(i) * scale;
    if (x > w) break;
    const size = dur[i] * scale;
    if (size >= 1.5) {
      const a = Math.max(x, 0), b = Math.min(x + size, w), faint = found && !matches[i];
      const block = count[i] > 1;
      pen.globalAlpha = faint ? .18 : block ? .35 + .5 * Math.min(1, busy[i] / dur[i]) : 1;
      pen.fillStyle = color(i);
      pen.fillRect(LEFT + a, y, Math.max(b - a - (b - a > 3 ? .6 : 0), 1), ROW - 2);
      pen.globalAlpha = 1;
      if (block && !idle) {
        pen.fillStyle = css.soft;
        pen.fillRect(LEFT + a, y + ROW - 4, Math.max(b - a - .6, 1), 2);
      }
      if (b - a > 26 && !idle) {
        const label = block ? count[i].toLocaleString('en') + ' × ' + (name[i] ? names[name[i] - 1].text : '')
          : name[i] ? names[name[i] - 1].text : '(no name)';
        pen.fillStyle = faint ? css.soft : block && busy[i] < .7 * dur[i] ? css.ink : dark ? '#0e1114' : '#15181c';
        pen.fillText(clipText(label, b - a - 6), LEFT + a + 3, y + ROW - 5.5);
      }
      if (i === picked || i === hover) {
        pen.strokeStyle = i === picked ? css.ink : css.soft;
        pen.lineWidth = i === picked ? 2 : 1;
        pen.strokeRect(LEFT + a + .5, y - .5, Math.max(b - a - 1, 1), ROW - 1);
      }
      i++;
      continue;
    }
    const px = Math.floor(x), edge = (px + 1) / scale;
    let j = nextStart(i, row.end, edge);
    if (j > i + 1 && dur[j - 1] * scale >= 1.5) j--;
    const s = summary(i, j), hit = found && found.before[j] > found.before[i];
    pen.globalAlpha = found ? hit ? 1 : .15 : Math.min(1, .5 + .5 * s.sum * scale);
    pen.fillStyle = hit ? css.mark : color(s.best);
    pen.fillRect(LEFT + Math.max(px, 0), y, 1, ROW - 2);
    pen.globalAlpha = 1;
    if (picked >= i && picked < j) {
      pen.fillStyle = css.ink;
      pen.fillRect(LEFT + px - 1, y - 1, 3, ROW);
    }
    i = j;
  }
}
function drawRuler() {
  const w = width - LEFT, aim = view.span / Math.max(2, w / 110);
  let step = 10 ** Math.floor(Math.log10(aim));
  step *= aim / step > 5 ? 10 : aim / step > 2 ? 5 : aim / step > 1 ? 2 : 1;
  const s = BigInt(Math.max(1, Math.round(step))), from = viewBig();
  const round = 10n ** BigInt(String(s * 100n).length);
  const base = from > round * 10n ? from - from % round : 0n;
  pen.fillStyle = css.panel;
  pen.fillRect(0, 0, width, RULER);
  pen.fillStyle = css.soft;
  pen.fillText(base ? exact(base) + ' +' : 'from the beginning', 10, 20);
  let t = from - from % s;
  if (t < 0n) t = 0n;
  for (; ; t += s) {
    const x = relativeBig(t) * w / view.span;
    if (x > w) break;
    if (x < 0) continue;
    pen.fillStyle = css.grid;
    pen.fillRect(LEFT + Math.round(x), RULER - 8, 1, height);
    pen.fillStyle = css.soft;
    pen.fillText(exact(t - base), LEFT + Math.round(x) + 4, 20);
  }
  pen.fillStyle = css.grid;
  pen.fillRect(0, RULER - 1, width, 1);
}
function draw() {
  pending = false;
  const ratio = devicePixelRatio || 1;
  width = stage.clientWidth;
  height = stage.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  layout();
  scroll = Math.max(0, Math.min(scroll, depth - (height - RULER)));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  pen.fillStyle = css.paper;
  pen.fillRect(0, 0, width, height);
  drawRuler();
  pen.save();
  pen.beginPath();
  pen.rect(0, RULER, width, height - RULER);
  pen.clip();
  for (const t of tracks) {
    const y = t.y - scroll + RULER;
    if (y > height) break;
    if (y + t.height < RULER) continue;
    if (t.line) drawLine(t.line, y, t.height);
    else drawHead(t.plane, y);
  }
  drawRange();
  pen.restore();
  const from = viewBig();
  where.value = about(view.span) + ' from ' + exact(from < 0n ? 0n : from);
}
// The steps of a process, every other one shaded; none while they are too narrow to be told apart.
function drawBands(p, y, h, named) {
  const w = width - LEFT, bands = P.planes[p].bands, least = viewBig(), most = least + BigInt(Math.ceil(view.span));
  let a = 0, b = bands.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (bands[m].to >= least) b = m; else a = m + 1;
  }
  let end = a;
  while (end < bands.length && bands[end].from <= most && end - a <= w / 3) end++;
  if (end - a > w / 3) return;
  for (let i = a; i < end; i++) {
    const x = Math.max(relativeBig(bands[i].from) * w / view.span, 0), e = Math.min(relativeBig(bands[i].to) * w / view.span, w);
    pen.fillStyle = bands[i].outlier ? css.mark : css.accent;
    pen.globalAlpha = bands[i].outlier ? .16 : i % 2 ? .09 : .03;
    pen.fillRect(LEFT + x, y, Math.max(e - x, 1), h);
    pen.globalAlpha = 1;
    const text = clipText('step ' + bands[i].index, e - x - 6);
    if (!named || e - x < 24 || !text) continue;
    pen.fillStyle = css.soft;
    pen.fillText(text, LEFT + x + 4, y + 14);
  }
}
function drawHead(p, y) {
  const plane = P.planes[p];
  pen.fillStyle = css.panel;
  pen.fillRect(0, y, width, HEAD - 2);
  pen.fillStyle = css.ink;
  pen.font = '600 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  const many = P.files.length > 1 ? plane.host + ' ' : '';
  pen.fillText((foldedPlanes.has(p) ? '▸ ' : '▾ ') + many + (plane.name || '(no name)'), 8, y + 14);
  pen.font = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  drawBands(p, y, HEAD - 2, true);
}
function drawLine(line, y, h) {
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, RULER, width - LEFT, height - RULER);
  pen.clip();
  drawBands(line.plane, y, h - 2, false);
  for (let r = 0; r < (line.folded ? 1 : line.rows.length); r++) {
    const at = y + 2 + r * ROW;
    if (at < height && at + ROW > RULER) drawRow(line.rows[r], at);
  }
  pen.restore();
  pen.fillStyle = css.ink;
  const sign = line.rows.length > 1 ? line.folded ? '▸ ' : '▾ ' : '  ';
  pen.fillText(sign + clipMiddle(lineName(line), LEFT - 36), 16, y + ROW - 4);
  pen.fillStyle = css.grid;
  pen.fillRect(0, y + h - 2, width, 1);
  pen.fillRect(LEFT - 1, y, 1, h - 1);
}
function drawRange() {
  if (!range) return;
  const w = width - LEFT, a = relativeBig(range.from) * w / view.span, b = relativeBig(range.to) * w / view.span;
  const x = Math.max(a, 0), size = Math.min(b, w) - x;
  if (size < 0) return;
  const top = Math.max(range.top - scroll + RULER, RULER), bottom = Math.min(range.bottom - scroll + RULER, height);
  pen.globalAlpha = .14;
  pen.fillStyle = css.accent;
  pen.fillRect(LEFT + x, top, Math.max(size, 1), bottom - top);
  pen.globalAlpha = 1;
  pen.strokeStyle = css.accent;
  pen.lineWidth = 1;
  pen.strokeRect(LEFT + x + .5, top + .5, Math.max(size - 1, 1), bottom - top - 1);
}

// ---- Details
const cell = (text, kind) => make('td', kind ? { class: kind } : {}, text);
const fact = (key, value, kind) => make('tr', {}, make('th', {}, key), cell(value, kind));
function facts(table, index) {
  const d = index ? P.details[index - 1] : [];
  for (let k = 0; k + 1 < d.length; k += 2) {
    const v = d[k + 1];
    table.append(fact(P.strings[d[k]], v === null ? '(leads nowhere)' : Array.isArray(v) ? P.strings[v[0]] :
      Number.isInteger(v) ? v.toLocaleString('en') : String(v), Array.isArray(v) ? 'text' : ''));
  }
}
function open(...nodes) {
  panel.replaceChildren(...nodes);
  panel.style.display = nodes.length ? 'block' : 'none';
  panel.scrollTop = 0;
  redraw();
}
function pick(i, bring) {
  picked = i;
  if (i < 0) return open();
  const row = rowOf(i), line = row.line, plane = P.planes[line.plane], table = make('table', {}), start = big(i);
  if (bring) {
    foldedPlanes.delete(line.plane);
    line.folded = false;
    layout();
    const t = tracks.find(x => x.line === line), y = t.y + line.rows.indexOf(row) * ROW;
    if (y < scroll || y > scroll + height - RULER - 260) scroll = Math.max(0, y - 120);
    const x = relative(i);
    if (x < 0 || x + dur[i] > view.span) { view.lo += x + dur[i] / 2 - view.span / 2; normalise(); changed(); }
  }
  table.append(fact('start', exact(start)), fact('duration', exact(BigInt(dur[i]))),
    fact('end', exact(start + BigInt(dur[i]))),
    fact('line', (plane.name || '(no name)') + ' › ' + lineName(line) + (P.files.length > 1 ? ' of ' + plane.host : '')));
  if (count[i] > 1) {
    table.append(fact('holds', count[i].toLocaleString('en') + (line.name === null ? ' busy spans, ' : ' events, ') +
      exact(BigInt(busy[i])) + ' in all, ' + about(busy[i] / count[i]) + ' each on average'));
    if (name[i]) table.append(fact('longest', shortName(i)));
  } else if (name[i]) {
    let n = 0, sum = 0;
    for (const l of lines) {
      if (l.plane !== line.plane || !l.rows.length) continue;
      for (let k = l.rows[0].first; k < l.rows[l.rows.length - 1].end; k++) {
        if (name[k] === name[i] && count[k] === 1) { n++; sum += dur[k]; }
      }
    }
    table.append(fact('of this name', n.toLocaleString('en') + ' alone in this plane, ' + about(sum) + ' in all, ' +
      about(sum / n) + ' on average'));
    facts(table, detail[i]);
  }
  if (name[i]) {
    const n = plane.names[name[i] - 1];
    if (n[1] >= 0 && P.strings[n[0]] !== P.strings[n[1]]) table.append(fact('full name', P.strings[n[0]], 'text'));
    facts(table, n[2]);
  }
  open(make('h2', {}, count[i] > 1 ? 'A block of ' + count[i].toLocaleString('en') : shortName(i)), table);
}
// What a range holds, row by row: of an event the part inside it.
function sumRange() {
  const a = relativeBig(range.from), b = relativeBig(range.to), byName = new Map();
  let n = 0, sum = 0, sums = 0n, loose = false, used = 0;
  for (const t of tracks) {
    if (!t.line || t.line.name === null || t.y + t.height <= range.top || t.y >= range.bottom) continue;
    used++;
    const names = P.planes[t.line.plane].names, counts = new Float64Array(names.length + 1);
    const times = new Float64Array(names.length + 1);
    for (const row of t.line.rows) {
      for (let i = firstAfter(row, a); i < row.end; i++) {
        const s = relative(i), e = s + dur[i];
        if (s > b) break;
        const inside = Math.max(0, Math.min(e, b) - Math.max(s, a));
        const part = count[i] === 1 || inside === dur[i] ? inside === dur[i] ? busy[i] : inside
          : busy[i] * inside / dur[i];
        if (count[i] > 1) loose = true;
        n += count[i];
        sum += part;
        if (sum > 2 ** 52) { sums += BigInt(Math.floor(sum)); sum -= Math.floor(sum); }
        counts[name[i]] += count[i];
        times[name[i]] += part;
      }
    }
    counts.forEach((c, k) => {
      if (!c) return;
      const key = k && names[k - 1] ? P.strings[names[k - 1][1] >= 0 ? names[k - 1][1] : names[k - 1][0]] : '(no name)';
      const old = byName.get(key) || [0, 0];
      byName.set(key, [old[0] + c, old[1] + times[k]]);
    });
  }
  sums += BigInt(Math.round(sum));
  const list = [...byName].sort((x, y) => y[1][1] - x[1][1]), table = make('table', {});
  table.append(make('tr', {}, ...['name', 'count', 'total', 'mean', '%'].map(h => make('th', {}, h))));
  for (const [key, [c, time]] of list.slice(0, 200)) {
    table.append(make('tr', {}, cell(key.length > 160 ? key.slice(0, 160) + '…' : key), cell(c.toLocaleString('en'), 'number'),
      cell(about(time), 'number'), cell(about(time / c), 'number'),
      cell(sums ? (100 * time / Number(sums)).toFixed(1) : '', 'number')));
  }
  open(make('h2', {}, `${n.toLocaleString('en')} events, ${exact(sums)} in all, ${n ? about(Number(sums) / n) : 0 + ' ps'} on average`),
    make('p', {}, `${exact(range.to - range.from)} from ${exact(range.from)} to ${exact(range.to)}, ${used} lines. ` +
      'Of an event that reaches out of the range the part inside counts; what is nested counts in each of its rows.' +
      (loose ? ' Blocks count under their longest event, and those at the edges by their share.' : '') +
      (list.length > 200 ? ` The first 200 of ${list.length} names.` : '')), table);
}

// ---- Searching
function find() {
  const text = search.value.trim().toLowerCase();
  if (!text) {
    found = matches = null;
    hits.value = '';
    return redraw();
  }
  matches = new Uint8Array(total);
  const before = new Uint32Array(total + 1);
  let n = 0;
  P.planes.forEach((plane, p) => {
    const hit = plane.names.map(k => k && (P.strings[k[0]].toLowerCase().includes(text) ||
      (k[1] >= 0 && P.strings[k[1]].toLowerCase().includes(text))));
    for (const l of lines) {
      if (l.plane !== p) continue;
      for (const r of l.rows) for (let i = r.first; i < r.end; i++) if (name[i] && hit[name[i] - 1]) matches[i] = 1;
    }
  });
  for (let i = 0; i < total; i++) { n += matches[i]; before[i + 1] = n; }
  found = { before, n };
  hits.value = n.toLocaleString('en') + ' found';
  redraw();
}
const earlier = (a, b) => hi[a] !== hi[b] ? hi[a] < hi[b] : lo[a] !== lo[b] ? lo[a] < lo[b] : a < b;
function step(back) {
  if (!found || !found.n) return;
  let best = -1, edge = -1, rank = 0;
  for (let i = 0; i < total; i++) {
    if (!matches[i]) continue;
    if (edge < 0 || (back ? earlier(edge, i) : earlier(i, edge))) edge = i;
    if (picked >= 0 && (back ? earlier(i, picked) : earlier(picked, i)) &&
      (best < 0 || (back ? earlier(best, i) : earlier(i, best)))) best = i;
  }
  if (best < 0) best = edge;
  for (let i = 0; i < total; i++) if (matches[i] && earlier(i, best)) rank++;
  hits.value = (rank + 1).toLocaleString('en') + ' of ' + found.n.toLocaleString('en');
  pick(best, true);
}
search.addEventListener('input', find);
search.addEventListener('keydown', e => {
  if (e.key === 'Enter') step(e.shiftKey);
  if (e.key === 'Escape') { search.value = ''; find(); canvas.focus(); }
});

// ---- Pointer
function at(x, y) { // the record under the pointer
  const deep = y - RULER + scroll, t = tracks.find(k => deep >= k.y && deep < k.y + k.height);
  if (!t || !t.line || x < LEFT || y < RULER) return { track: t, record: -1 };
  const row = t.line.rows[Math.min(Math.floor((deep - t.y - 2) / ROW), t.line.folded ? 0 : t.line.rows.length - 1)];
  if (!row) return { track: t, record: -1 };
  const ps = (x - LEFT) / (width - LEFT) * view.span, px = view.span / (width - LEFT);
  let best = -1;
  for (let i = firstAfter(row, ps - px), n = 0; i < row.end && n < 64; i++, n++) {
    if (relative(i) > ps + px) break;
    if (best < 0 || dur[i] > dur[best]) best = i;
    if (relative(i) <= ps && relative(i) + dur[i] > ps) { best = i; break; }
  }
  return { track: t, record: best };
}
const timeAt = x => viewBig() + BigInt(Math.round(Math.min(Math.max((x - LEFT) / (width - LEFT), 0), 1) * view.span));
let drag = null;
canvas.addEventListener('pointerdown', e => {
  if (e.button > 1) return;
  canvas.setPointerCapture(e.pointerId);
  drag = { x: e.offsetX, y: e.offsetY, scroll, moved: false, pan: e.shiftKey || e.button === 1, last: e.offsetX };
});
canvas.addEventListener('pointermove', e => {
  pointer = { x: e.offsetX };
  if (drag) {
    drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) > 3 || (drag.pan && Math.abs(e.offsetY - drag.y) > 3);
    if (!drag.moved) return;
    tip.style.display = 'none';
    if (drag.pan) {
      scroll = drag.scroll + drag.y - e.offsetY;
      pan((drag.last - e.offsetX) / (width - LEFT));
      drag.last = e.offsetX;
      return;
    }
    const a = timeAt(drag.x), b = timeAt(e.offsetX), all = drag.y < RULER;
    const top = Math.min(drag.y, e.offsetY) - RULER + scroll, bottom = Math.max(drag.y, e.offsetY) - RULER + scroll;
    range = { from: a < b ? a : b, to: a < b ? b : a, top: all ? 0 : top, bottom: all ? depth : bottom + 1 };
    return redraw();
  }
  const hit = at(e.offsetX, e.offsetY);
  if (hit.record !== hover) { hover = hit.record; redraw(); }
  if (hover < 0) { tip.style.display = 'none'; return; }
  const text = count[hover] > 1 ? count[hover].toLocaleString('en') + ' events' + (name[hover] ? ', longest: ' + shortName(hover) : '')
    : shortName(hover);
  tip.textContent = (text.length > 300 ? text.slice(0, 300) + '…' : text) + ' · ' + about(dur[hover]);
  tip.style.display = 'block';
  tip.style.left = Math.min(e.offsetX + 14, width - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(e.offsetY + 18, height - tip.offsetHeight - 8) + 'px';
});
canvas.addEventListener('pointerup', e => {
  const was = drag;
  drag = null;
  if (!was) return;
  if (was.moved) { if (!was.pan) { picked = -1; sumRange(); } return; }
  const hit = at(e.offsetX, e.offsetY);
  if (hit.track && e.offsetX < LEFT && e.offsetY > RULER) {
    if (hit.track.line) hit.track.line.folded = !hit.track.line.folded && hit.track.line.rows.length > 1;
    else if (!foldedPlanes.delete(hit.track.plane)) foldedPlanes.add(hit.track.plane);
    return redraw();
  }
  range = null;
  pick(hit.record, false);
});
canvas.addEventListener('pointerleave', () => { hover = -1; pointer = null; tip.style.display = 'none'; redraw(); });
canvas.addEventListener('wheel', e => {
  e.preventDefault();
  const unit = e.deltaMode ? 24 : 1;
  if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY * unit * .0025), e.offsetX);
  else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) * unit / (width - LEFT));
  else { scroll += e.deltaY * unit; redraw(); }
}, { passive: false });

// ---- Keys
const fit = () => {
  if (picked >= 0) {
    const d = BigInt(Math.max(20, Math.ceil(dur[picked] * .1)));
    show(big(picked) - d > 0n ? big(picked) - d : 0n, big(picked) + BigInt(dur[picked]) + d);
  } else if (range) {
    show(range.from, range.to);
  }
};
function mark() {
  if (picked < 0) return;
  range = { from: big(picked), to: big(picked) + BigInt(dur[picked]), top: 0, bottom: depth };
  picked = -1;
  sumRange();
}
function neighbour(by) {
  if (picked < 0) return;
  const row = rowOf(picked), i = picked + by;
  if (i >= row.first && i < row.end) pick(i, true);
}
function foldAll() {
  const all = P.planes.every((p, i) => foldedPlanes.has(i));
  foldedPlanes.clear();
  if (!all) P.planes.forEach((p, i) => foldedPlanes.add(i));
}
const focus = () => { // what zooming keeps in its place
  if (pointer && pointer.x > LEFT) return pointer.x;
  const x = picked < 0 ? -1 : (relative(picked) + dur[picked] / 2) / view.span;
  return LEFT + (width - LEFT) * (x >= 0 && x <= 1 ? x : .5);
};
const actions = {
  w: () => zoom(.7, focus()), s: () => zoom(1 / .7, focus()), a: () => pan(-.12), d: () => pan(.12),
  arrowleft: () => pan(-.12), arrowright: () => pan(.12), arrowup: () => { scroll -= 60; }, arrowdown: () => { scroll += 60; },
  pageup: () => { scroll -= height * .8; }, pagedown: () => { scroll += height * .8; },
  f: fit, m: mark, ',': () => neighbour(-1), '.': () => neighbour(1), e: foldAll,
  0: () => show(whole.from, whole.to), home: () => show(whole.from, whole.to),
  '?': () => help.showModal(), '/': () => search.focus(),
  escape: () => { range = null; pick(-1); },
};
document.addEventListener('keydown', e => {
  if (e.target === search || help.open || e.ctrlKey || e.metaKey || e.altKey) return;
  const action = actions[e.key.toLowerCase()];
  if (!action) return;
  e.preventDefault();
  action();
  redraw();
});

new ResizeObserver(redraw).observe(stage);
addEventListener('hashchange', followLink);
theme();
width = stage.clientWidth;
height = stage.clientHeight;
followLink();
if (!total) open(make('h2', {}, 'There is no event here'), make('p', {}, 'The profile, or the window of it, is empty.'));
})();
