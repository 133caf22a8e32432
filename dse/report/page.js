'use strict';
// Draws everything from DATA as SVG; no library. State is the batch size, the design picked and the controls.
(() => {
  const $ = (id) => document.getElementById(id);
  const NS = 'http://www.w3.org/2000/svg';
  // of page.css, which has them for light and for dark
  const palette = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => `var(--c${i})`);
  const dashes = ['', '7 3', '2 3', '7 3 2 3', '12 4', '1 5'];
  const batch = () => Number($('batch').value);
  const num = (v, d = 1) => v.toLocaleString('en', { minimumFractionDigits: d, maximumFractionDigits: d });
  const point = (d) => `<${d.TR}, ${d.TP}, ${d.TC}>`;

  function el(parent, name, attrs = {}, text) {
    const e = document.createElementNS(NS, name);
    for (const k in attrs) {
      if (k === 'fill' || k === 'stroke') e.style.setProperty(k, attrs[k]); // an attribute does not know var()
      else e.setAttribute(k, attrs[k]);
    }
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function html(parent, name, text, cls) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    parent.appendChild(e);
    return e;
  }
  function tip(e, text) {
    e.addEventListener('mousemove', (v) => {
      const t = $('tip');
      t.textContent = text;
      t.style.display = 'block';
      t.style.left = Math.min(v.clientX + 14, innerWidth - t.offsetWidth - 8) + 'px';
      t.style.top = Math.min(v.clientY + 14, innerHeight - t.offsetHeight - 8) + 'px';
    });
    e.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
  }
  function svg(id, w, h) {
    const box = $(id);
    box.replaceChildren();
    return el(box, 'svg', { viewBox: `0 0 ${w} ${h}`, role: 'img' });
  }
  function table(id, head, rows, textCols = []) {
    const box = $(id);
    box.replaceChildren();
    const t = html(box, 'table');
    const tr = html(html(t, 'thead'), 'tr');
    const body = html(t, 'tbody');
    head.forEach((h, i) => {
      const th = html(tr, 'th', h, textCols.includes(i) ? 'text' : '');
      th.tabIndex = 0;
      th.title = 'sort by this column';
      const sort = () => {
        const up = th.getAttribute('aria-sort') !== 'ascending';
        for (const other of tr.children) other.removeAttribute('aria-sort');
        th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const cell = (line) => line.children[i].textContent;
        const size = (text) => parseFloat(text.replaceAll(',', ''));
        const lines = [...body.children], numbers = lines.every((l) => !isNaN(size(cell(l))));
        lines.sort((a, b) => (up ? 1 : -1) * (numbers ? size(cell(a)) - size(cell(b)) : cell(a).localeCompare(cell(b), 'en', { numeric: true })));
        body.append(...lines);
      };
      th.addEventListener('click', sort);
      th.addEventListener('keydown', (e) => { if (e.key === 'Enter') sort(); });
    });
    for (const r of rows) {
      const line = html(body, 'tr');
      r.forEach((c, i) => html(line, 'td', c, textCols.includes(i) ? 'text' : ''));
    }
  }
  function key(parent, names, colour) {
    const k = html(parent, 'div', undefined, 'key');
    for (const n of names) {
      const s = html(k, 'span');
      html(s, 'i').style.background = colour(n);
      s.append(n);
    }
  }
  // steps of 1, 2, 5 times a power of ten
  function ticks(lo, hi, n) {
    const raw = (hi - lo) / n, p = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 5, 10].find((s) => s * p >= raw) * p;
    const out = [];
    for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-9; v += step) out.push(v);
    return out;
  }
  function axes(s, box, x, y, xs, ys, xName, yName, fx = (v) => v, fy = (v) => v) {
    for (const v of ys) {
      el(s, 'line', { class: 'grid', x1: box.l, x2: box.r, y1: y(v), y2: y(v) });
      el(s, 'text', { x: box.l - 6, y: y(v) + 4, 'text-anchor': 'end' }, fy(v));
    }
    for (const v of xs) {
      el(s, 'line', { class: 'grid', x1: x(v), x2: x(v), y1: box.t, y2: box.b });
      el(s, 'text', { x: x(v), y: box.b + 16, 'text-anchor': 'middle' }, fx(v));
    }
    el(s, 'path', { class: 'axis', d: `M${box.l} ${box.t}V${box.b}H${box.r}` });
    el(s, 'text', { class: 'name', x: (box.l + box.r) / 2, y: box.b + 36, 'text-anchor': 'middle' }, xName);
    el(s, 'text', { class: 'name', x: box.l, y: box.t - 8 }, yName);
  }

  let picked = DATA.points.find((d) => point(d) === point(DATA.best)) || DATA.best;
  const label = (id) => $(id).selectedOptions[0].textContent;

  function space() {
    const kx = $('px').value, ky = $('py').value, only = $('only').checked;
    const value = (d) => (ky === 'batch' ? d.gops_by_batch[batch() - 1] : d[ky]);
    const list = DATA.points.filter((d) => d.front || !only);
    const W = 720, H = 430, box = { l: 62, r: W - 14, t: 28, b: H - 46 };
    const s = svg('pareto', W, H);
    const xs = list.map((d) => d[kx]), ys = list.map(value);
    const logX = kx === 'b1_ms' || kx === 'TR';
    const x0 = logX ? Math.min(...xs) : Math.min(0, ...xs), x1 = Math.max(...xs) * (logX ? 1.1 : 1.03);
    const y0 = Math.min(0, ...ys), y1 = Math.max(...ys) * 1.05 || 1;
    const f = logX ? Math.log2 : (v) => v;
    const x = (v) => box.l + (f(v) - f(x0)) / (f(x1) - f(x0) || 1) * (box.r - box.l);
    const y = (v) => box.b - (v - y0) / (y1 - y0 || 1) * (box.b - box.t);
    const xt = logX ? [] : ticks(x0, x1, 8);
    if (logX) for (let p = Math.ceil(Math.log2(x0)); 2 ** p <= x1; p++) xt.push(2 ** p);
    axes(s, box, x, y, xt, ticks(y0, y1, 6), label('px'), label('py'));
    const draw = (d) => {
      const on = d.TR === picked.TR && d.TP === picked.TP && d.TC === picked.TC;
      const c = el(s, 'circle', {
        class: 'dot', cx: x(d[kx]), cy: y(value(d)), r: on ? 7 : d.front ? 4.5 : 2.6,
        fill: on ? palette[1] : d.front ? palette[0] : 'var(--soft)', 'fill-opacity': d.front || on ? 0.95 : 0.45,
      });
      tip(c, `${point(d)}\n${num(d.gops)} GOP/s, ${num(d.b1_ms, 2)} ms at B = 1\n${d.dsp} DSP, ${num(d.bram36)} BRAM36`);
      c.addEventListener('click', () => { picked = d; space(); });
    };
    list.filter((d) => !d.front).forEach(draw);
    list.filter((d) => d.front).forEach(draw);
    if (!list.includes(picked)) draw(picked);
    key($('pareto'), ['on the Pareto front', 'evaluated', 'picked (click a dot)'], (n) => ({ o: palette[0], e: 'var(--soft)', p: palette[1] }[n[0]]));
    const card = $('picked');
    card.replaceChildren();
    html(card, 'h3', point(picked));
    const lines = [
      ['GOP/s, weighted', num(picked.gops)], ['latency at B = 1', num(picked.b1_ms, 2) + ' ms'], ['DSP', picked.dsp], ['BRAM36', num(picked.bram36)],
      ['on the front', picked.front ? 'yes' : 'no'],
    ];
    picked.gops_by_batch.forEach((v, i) => lines.push([`GOP/s at B = ${i + 1}`, num(v)]));
    const t = html(card, 'table');
    for (const [a, b] of lines) { const r = html(t, 'tr'); html(r, 'td', a); html(r, 'td', b); }
  }

  function roofline() {
    const b = batch(), W = 1100, H = 400, box = { l: 62, r: W - 14, t: 28, b: H - 46 };
    const dots = DATA.layers.map((l) => {
      const t = l.at[b - 1].time, bytes = t.bytes_read + t.bytes_written, ops = 2 * t.macs;
      return { l, i: ops / bytes, g: ops / (t.cycles / (DATA.design.clock_mhz * 1e6)) / 1e9, t };
    }).filter((d) => d.i > 0);
    const x0 = Math.min(1, ...dots.map((d) => d.i)), x1 = Math.max(1000, ...dots.map((d) => d.i)) * 1.3;
    const y0 = Math.min(1, ...dots.map((d) => d.g)), y1 = DATA.peak_gops * 1.6;
    const lx = (v) => box.l + Math.log(v / x0) / Math.log(x1 / x0) * (box.r - box.l);
    const ly = (v) => box.b - Math.log(v / y0) / Math.log(y1 / y0) * (box.b - box.t);
    const s = svg('roofline', W, H);
    const dec = (lo, hi) => { const o = []; for (let p = Math.ceil(Math.log10(lo)); 10 ** p <= hi; p++) o.push(10 ** p); return o; };
    axes(s, box, lx, ly, dec(x0, x1), dec(y0, y1), 'operations a byte', `GOP/s at B = ${b}`);
    const ridge = DATA.peak_gops / DATA.gb_per_s;
    el(s, 'path', { d: `M${lx(x0)} ${ly(Math.max(y0, x0 * DATA.gb_per_s))}L${lx(ridge)} ${ly(DATA.peak_gops)}H${box.r}`, fill: 'none', stroke: 'var(--ink)', 'stroke-width': 2 });
    el(s, 'text', { class: 'name', x: box.r - 4, y: ly(DATA.peak_gops) - 7, 'text-anchor': 'end' }, `peak ${num(DATA.peak_gops)} GOP/s; DRAM ${num(DATA.gb_per_s, 2)} GB/s`);
    for (const d of dots) {
      const c = el(s, 'circle', { class: 'dot', cx: lx(d.i), cy: ly(d.g), r: 4.5, fill: colourOf(d.t.bound), 'fill-opacity': 0.85 });
      tip(c, `${d.l.name}\n${num(d.i)} operations a byte, ${num(d.g)} GOP/s\nbound: ${d.t.bound}`);
    }
    key($('roofline'), bounds, colourOf);
  }

  const bounds = [...new Set(DATA.layers.flatMap((l) => l.at.map((a) => a.time.bound)))].sort();
  const colourOf = (n) => palette[bounds.indexOf(n) % palette.length];

  function shown() {
    const b = batch(), want = $('bound').value, by = $('sort').value;
    const list = DATA.layers.filter((l) => !want || l.at[b - 1].time.bound === want);
    if (by === 'cycles') list.sort((p, q) => q.at[b - 1].time.cycles - p.at[b - 1].time.cycles);
    if (by === 'util') list.sort((p, q) => p.at[b - 1].util - q.at[b - 1].util);
    return list;
  }
  const short = (n) => (n.length > 38 ? '…' + n.slice(-37) : n);

  function bars() {
    const b = batch(), list = shown(), W = 1100, h = 17, L = 290;
    const s = svg('bars', W, list.length * h + 30);
    const most = Math.max(1, ...list.map((l) => l.at[b - 1].time.cycles));
    list.forEach((l, i) => {
      const a = l.at[b - 1], t = a.time, y = 22 + i * h, x = (v) => v / most * (W - L - 130);
      el(s, 'text', { class: 'name', x: L - 8, y: y + 12, 'text-anchor': 'end' }, short(l.name));
      // what the array is busy with, and the rest of the layer's time
      const busy = Math.min(t.cycles, a.util * t.cycles);
      const r = el(s, 'rect', { class: 'seg', x: L, y: y + 2, width: Math.max(x(t.cycles), 0.5), height: h - 4, fill: colourOf(t.bound), 'fill-opacity': 0.35 });
      el(s, 'rect', { x: L, y: y + 2, width: x(busy), height: h - 4, fill: colourOf(t.bound), 'pointer-events': 'none' });
      tip(r, `${l.name}\n${t.cycles} cycles, ${num(100 * a.util)} % of the MACs at work, bound: ${t.bound}\nfill ${t.fill}, array ${t.array}, DRAM ${t.dram}, ports ${t.ports}, tail ${t.tail}, answer ${t.answer}\nk = ${a.k}, s = ${a.s}, tile ${a.tile_b} x ${a.tile_rows}`);
      el(s, 'text', { x: L + x(t.cycles) + 6, y: y + 12 }, `${t.cycles.toLocaleString('en')}, ${num(100 * a.util, 0)} %`);
    });
    el(s, 'text', { x: L, y: 12 }, `cycles at B = ${b}; the full part is MACs at work`);
    key($('bars'), bounds, colourOf);
  }

  function heat() {
    const by = $('heat-by').value, W = 1100, h = 15, L = 290, w = (W - L - 10) / 8;
    const s = svg('heat', W, DATA.layers.length * h + 26);
    const points = [...new Set(DATA.layers.flatMap((l) => l.at.map((a) => `k = ${a.k}, s = ${a.s}`)))].sort();
    const scale = (v) => `color-mix(in oklab, #56b4e9 ${Math.round(100 * v)}%, #f0e442)`;
    const fill = (a) => ({
      point: palette[points.indexOf(`k = ${a.k}, s = ${a.s}`) % palette.length], util: scale(a.util),
      bound: colourOf(a.time.bound), tile: scale((a.tile_b - 1) / 7),
    }[by]);
    const text = (a) => ({ point: `${a.k}, ${a.s}`, util: num(100 * a.util, 0), bound: a.time.bound, tile: a.tile_b }[by]);
    for (let b = 1; b <= 8; b++) el(s, 'text', { x: L + (b - 0.5) * w, y: 13, 'text-anchor': 'middle' }, `B = ${b}`);
    DATA.layers.forEach((l, i) => {
      const y = 20 + i * h;
      el(s, 'text', { class: 'name', x: L - 8, y: y + 11, 'text-anchor': 'end' }, short(l.name));
      l.at.forEach((a, j) => {
        const r = el(s, 'rect', { class: 'cell', x: L + j * w, y, width: w - 1.5, height: h - 1.5, fill: fill(a), 'fill-opacity': 0.8 });
        tip(r, `${l.name}, B = ${j + 1}\nk = ${a.k}, s = ${a.s}, B_R = ${a.B_R}, ${a.order ? 'C tile' : 'row tile'} outermost\ntile ${a.tile_b} x ${a.tile_rows}${a.keep_in ? ', reads' : ''}${a.keep_in && a.keep_out ? ' and' : a.keep_out ? ',' : ''}${a.keep_out ? ' writes' : ''}${a.keep_in || a.keep_out ? ' on chip' : ''}, ${a.time.cycles} cycles, ${num(100 * a.util)} % of peak, ${a.time.bound}`);
        el(s, 'text', { x: L + (j + 0.5) * w, y: y + 11, 'text-anchor': 'middle', 'pointer-events': 'none', style: 'font-size:10px;fill:#111' }, text(a));
      });
    });
    if (by === 'point') key($('heat'), points, (n) => palette[points.indexOf(n) % palette.length]);
    if (by === 'bound') key($('heat'), bounds, colourOf);
  }

  function ablation() {
    const seg = Number($('ab-seg').value), of = (r) => (seg < 0 ? r.gops : r.gops_by_segment[seg]);
    const rows = DATA.ablation, W = 680, H = 330, box = { l: 54, r: W - 190, t: 28, b: H - 44 };
    const s = svg('ab-plot', W, H);
    const y1 = Math.max(1, ...rows.flatMap(of)) * 1.05;
    const x = (b) => box.l + (b - 0.6) / 7.8 * (box.r - box.l), y = (v) => box.b - v / y1 * (box.b - box.t);
    axes(s, box, x, y, [1, 2, 3, 4, 5, 6, 7, 8], ticks(0, y1, 6), 'batch size', 'GOP/s');
    // few curves have a colour; the others are grey, and named by their tool tip and the table
    const named = (r) => SHOWN.findIndex((n) => n.law === r.law && n.scheme === r.scheme);
    const ends = [];
    for (const r of [...rows].sort((p, q) => named(p) - named(q))) {
      const i = named(r), p = of(r).map((v, i) => `${i ? 'L' : 'M'}${x(i + 1)} ${y(v)}`).join('');
      const line = el(s, 'path', { class: 'curve', d: p, fill: 'none', stroke: i < 0 ? 'var(--line)' : palette[i], 'stroke-width': i < 0 ? 1.2 : 2.2, 'stroke-dasharray': i < 0 ? '' : dashes[i] });
      tip(line, `${r.scheme}, ${r.law} law\n${of(r).map((v) => num(v)).join('  ')}`);
      if (i >= 0) ends.push({ i, at: y(of(r)[7]), name: r.law === 'paper' ? `${r.scheme} (paper)` : r.scheme });
    }
    // the name of a curve stands beside its end, or as close as the others leave room
    ends.sort((p, q) => p.at - q.at);
    let below = box.t;
    for (const e of ends) { e.y = Math.max(e.at, below); below = e.y + 16; }
    let above = box.b;
    for (const e of ends.reverse()) { e.y = Math.min(e.y, above); above = e.y - 16; }
    for (const e of ends) {
      el(s, 'path', { class: 'lead', d: `M${x(8) + 2} ${e.at}L${box.r + 4} ${e.y}`, fill: 'none', stroke: 'var(--line)' });
      el(s, 'path', { d: `M${box.r + 6} ${e.y}h26`, fill: 'none', stroke: palette[e.i], 'stroke-width': 2.2, 'stroke-dasharray': dashes[e.i] });
      el(s, 'text', { class: 'name', x: box.r + 38, y: e.y + 4 }, e.name);
    }
    html($('ab-plot'), 'p', 'grey: see the table.' + (rows.some((r) => r.law === 'paper') ? " The paper's law is on the published design." : ''), 'note');
    table('ab-table', ['scheme', 'law', 'B = 1', '2', '4', '8'], rows.map((r) => [r.scheme, r.law, ...[0, 1, 3, 7].map((i) => num(of(r)[i]))]));
  }

  function tables() {
    const b = batch();
    table('layer-table', ['layer', 'R', 'P', 'C', 'k', 's', 'tile', 'cycles', 'util %', 'bound'],
      shown().map((l) => { const a = l.at[b - 1]; return [l.name, l.R, l.P, l.C, a.k, a.s, `${a.tile_b} x ${a.tile_rows}`, a.time.cycles.toLocaleString('en'), num(100 * a.util), a.time.bound]; }));
  }

  function once() {
    const t = $('tiles');
    for (const [v, n] of [
      [point(DATA.best), `optimal in this space, by ${DATA.objective}`], [num(DATA.best.gops) + ' GOP/s', 'weighted over batch sizes'],
      [num(DATA.best.b1_ms, 2) + ' ms', 'latency at B = 1'], [DATA.designs.toLocaleString('en'), `designs; ${DATA.refused.toLocaleString('en')} points of the grid refused`],
      [DATA.space.toLocaleString('en'), 'mappings of layers and batches'], [DATA.evaluated.toLocaleString('en'), 'evaluated, the others proved no better'],
    ]) { const d = html(t, 'div'); html(d, 'b', v); html(d, 'span', n); }
    $('grid').textContent = 'The space: ' + DATA.grid;
    for (const n of bounds) { const o = html($('bound'), 'option', n); o.value = n; }
    const segs = DATA.ablation.length ? DATA.ablation[0].gops_by_segment.length : 0;
    if (segs > 1) for (let i = 0; i < segs; i++) { const o = html($('ab-seg'), 'option', `subnet ${i + 1}`); o.value = i; }
    if (DATA.ranks.length) table('ranks', ['design', 'rank'], DATA.ranks.map((r) => [r.name, r.text]), [1]);
    else html($('ranks'), 'p', 'None is known for this board.', 'note');
    const r = DATA.resources, u = DATA.used, band = (x) => (x.stale ? `${x.value} (law fitted on another RTL)` : x.band >= 1 ? `${x.value} (not calibrated)` : `${x.value} ± ${num(100 * x.band)} %`);
    table('res', ['resource', 'estimated', '% of the board'], [
      ['DSP', r.dsp, num(100 * u.dsp, 2)], ['BRAM36', num(r.bram36), num(100 * u.bram36, 2)], ['URAM', r.uram, num(100 * u.uram, 2)],
      ['LUT', band(r.lut), num(100 * u.lut, 2)], ['FF', band(r.ff), num(100 * u.ff, 2)],
    ]);
    table('front-table', ['design', 'GOP/s', 'ms at B = 1', 'DSP', 'BRAM36'], DATA.points.filter((d) => d.front).sort((p, q) => p.dsp - q.dsp)
      .map((d) => [point(d), num(d.gops), num(d.b1_ms, 2), d.dsp, num(d.bram36)]));
  }

  function byBatch() {
    $('batch-out').textContent = batch();
    space(); roofline(); bars(); tables();
  }
  $('batch').addEventListener('input', byBatch);
  for (const id of ['px', 'py', 'only']) $(id).addEventListener('change', space);
  for (const id of ['sort', 'bound']) $(id).addEventListener('change', () => { bars(); tables(); });
  $('heat-by').addEventListener('change', heat);
  $('ab-seg').addEventListener('change', ablation);
  once(); byBatch(); heat(); ablation();
})();
