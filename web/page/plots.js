// Drawings of figures: lines over lengths, and rows of dots and bars, each with its table for those who read.

import { h, s } from './dom.js';

const WIDTH = 660;
/** What one character of a label takes, roughly. */
const CHARACTER = 6.6;

/** A figure: its title, what it shows, its drawing, and the same as a table. */
export function figure(title, about, drawing, head, rows) {
  const table = h('table', null, h('caption', { class: 'unseen' }, title),
    h('thead', null, h('tr', null, head.map((name, index) => (name ? h('th', { scope: 'col', class: index ? 'number' : null }, name) : h('td'))))),
    h('tbody', null, rows.map((row) => h('tr', null, row.map((cell, index) => (index ? h('td', { class: 'number' }, cell) : h('th', { scope: 'row', class: 'data' }, cell)))))));
  return h('figure', { class: 'panel plotted' },
    h('figcaption', null, h('h2', null, title), about ? h('p', { class: 'faint' }, about) : null),
    drawing ? h('div', { class: 'drawing', tabindex: '0', role: 'region', 'aria-label': `${title}, drawn` }, drawing) : null,
    h('details', { open: drawing ? null : true }, h('summary', null, 'As a table'), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${title}, as a table` }, table)));
}

/** An axis of numbers. */
class Axis {
  constructor(values, from, to, logarithmic) {
    const known = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
    const [least, most] = [Math.min(...known), Math.max(...known)];
    this.from = from;
    this.to = to;
    this.logarithmic = logarithmic;
    if (logarithmic) {
      this.low = Math.floor(Math.log10(least) + 1e-9);
      this.high = Math.max(this.low + 1, Math.ceil(Math.log10(most) - 1e-9));
      // A decade that is hardly used begins later.
      this.ticks = Array.from({ length: this.high - this.low + 1 }, (_, index) => 10 ** (this.low + index));
      const fine = this.high - this.low <= 2;
      this.minor = this.ticks.slice(0, -1).flatMap((tick) => [2, 3, 4, 5, 6, 7, 8, 9].map((times) => tick * times));
      this.labels = fine ? [...this.ticks, ...this.minor.filter((tick) => [2, 5].includes(Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9))))] : this.ticks;
    } else {
      const step = [1, 2, 2.5, 5, 10].map((part) => part * 10 ** Math.floor(Math.log10((most || 1) / 5))).find((part) => most / part <= 6) ?? (most || 1);
      this.low = 0;
      this.high = Math.max(step, Math.ceil((most || 1) / step - 1e-9) * step);
      this.ticks = Array.from({ length: Math.round(this.high / step) + 1 }, (_, index) => index * step);
      this.minor = [];
      this.labels = this.ticks;
    }
  }

  place(value) {
    const at = this.logarithmic ? Math.log10(Math.max(value, 1e-300)) : value;
    const share = Math.max(0, Math.min(1, (at - this.low) / (this.high - this.low)));
    return this.from + (this.to - this.from) * share;
  }
}

function label(x, y, content, anchor = 'start', kind = null) {
  return s('text', { x: x.toFixed(1), y: y.toFixed(1), 'text-anchor': anchor, class: kind }, content);
}

/**
 * Rows of times or amounts: a dot for the typical one, a bar to the bad one, an end for the worst. `rows` are `{name, values, tone}` with one to three
 * values; `limit` is a line across.
 */
export function dots(rows, { unit, logarithmic = true, limit = null, bars = false }) {
  const left = Math.min(WIDTH / 2.4, Math.max(...rows.map((row) => row.name.length * CHARACTER + 16), 120));
  const right = WIDTH - 96;
  const axis = new Axis([...rows.flatMap((row) => row.values), ...(limit ? [limit] : [])], left, right, logarithmic);
  const bottom = 8 + rows.length * 26;
  const out = s('svg', { viewBox: `0 0 ${WIDTH} ${bottom + 30}`, class: 'plot-svg', 'aria-hidden': 'true' });
  for (const tick of axis.minor) out.append(s('line', { class: 'minor', x1: axis.place(tick), x2: axis.place(tick), y1: 0, y2: bottom }));
  let free = -Infinity;
  for (const tick of [...axis.labels].sort((a, b) => a - b)) {
    const x = axis.place(tick);
    out.append(s('line', { class: 'tick', x1: x, x2: x, y1: 0, y2: bottom }));
    const said = unit(tick);
    if (x - (said.length * CHARACTER) / 2 < free) continue;
    free = x + (said.length * CHARACTER) / 2 + 6;
    out.append(label(x, bottom + 18, said, 'middle', 'scale-text'));
  }
  if (limit) {
    const x = axis.place(limit);
    out.append(s('line', { class: 'limit', x1: x, x2: x, y1: 0, y2: bottom }));
  }
  for (const [index, row] of rows.entries()) {
    const y = 8 + 26 * (index + 0.5);
    const tone = `tone-${row.tone ?? 1}`;
    const [typical, bad, worst] = row.values;
    const x = axis.place(typical);
    const group = s('g', { class: tone }, s('title', null, `${row.name}: ${row.values.map(unit).join(', ')}`));
    if (bars) group.append(s('rect', { class: 'filled', x: axis.from, y: y - 7, width: Math.max(1, x - axis.from), height: 14, rx: 3 }));
    const end = worst ?? bad;
    if (end !== undefined && end > typical) {
      group.append(s('line', { class: 'stroke', x1: x, x2: axis.place(end), y1: y, y2: y }));
      if (bad !== undefined) group.append(s('line', { class: 'stroke thick', x1: axis.place(bad), x2: axis.place(bad), y1: y - 6, y2: y + 6 }));
      if (worst !== undefined) group.append(s('line', { class: 'stroke', x1: axis.place(worst), x2: axis.place(worst), y1: y - 4, y2: y + 4 }));
    }
    if (!bars) group.append(s('circle', { class: 'filled', cx: x, cy: y, r: 5 }));
    const most = Math.floor((left - 14) / CHARACTER);
    group.append(label(left - 10, y + 4, row.name.length > most ? `${row.name.slice(0, most - 1)}…` : row.name, 'end'), label(WIDTH - 4, y + 4, unit(typical), 'end', 'value'));
    out.append(group);
  }
  return out;
}

/** Lines over the logarithm of a length. `series` are `{name, points: [[x, y]], dashed}`; `x` and `y` format values. */
export function lines(series, { x: sayX, y: sayY, logarithmic }) {
  const shown = series.filter((each) => each.points.length > 1);
  if (!shown.length) return null;
  const [left, top, bottom] = [66, 10, 330];
  const names = Math.min(210, Math.max(...shown.map((each) => each.name.length * CHARACTER + 30)));
  const right = WIDTH - names;
  const lengths = [...new Set(shown.flatMap((each) => each.points.map(([at]) => at)))].sort((a, b) => a - b);
  const [least, most] = [Math.log2(lengths[0]), Math.log2(lengths.at(-1))];
  const place = (at) => left + 16 + (right - left - 32) * ((Math.log2(at) - least) / (most - least || 1));
  const axis = new Axis(shown.flatMap((each) => each.points.map(([, value]) => value)), bottom, top, logarithmic);
  const tall = Math.max(bottom + 30, 20 + shown.length * 16);
  const out = s('svg', { viewBox: `0 0 ${WIDTH} ${tall}`, class: 'plot-svg', 'aria-hidden': 'true' });
  for (const tick of axis.minor) out.append(s('line', { class: 'minor', x1: left, x2: right, y1: axis.place(tick), y2: axis.place(tick) }));
  for (const tick of axis.labels) {
    const y = axis.place(tick);
    out.append(s('line', { class: 'tick', x1: left, x2: right, y1: y, y2: y }), label(left - 8, y + 4, sayY(tick), 'end', 'scale-text'));
  }
  let free = -Infinity;
  for (const length of lengths) {
    const said = sayX(length);
    const half = (said.length * CHARACTER) / 2;
    if (place(length) - half < free) continue;
    free = place(length) + half + 8;
    out.append(label(place(length), bottom + 20, said, 'middle', 'scale-text'));
  }
  const ends = [];
  for (const [index, each] of shown.entries()) {
    const points = [...each.points].sort(([a], [b]) => a - b);
    const d = points.map(([at, value], number) => `${number ? 'L' : 'M'}${place(at).toFixed(1)} ${axis.place(value).toFixed(1)}`).join('');
    const dash = each.dashed ? '7 5' : [null, '2 3', '9 3 2 3'][Math.min(2, Math.floor(index / 9))];
    const group = s('g', { class: `tone-${index % 9}` }, s('title', null, each.name), s('path', { class: 'stroke curve', d, 'stroke-dasharray': dash }),
      points.map(([at, value]) => s('circle', { class: 'filled', cx: place(at).toFixed(1), cy: axis.place(value).toFixed(1), r: 2.5 }, s('title', null, `${each.name}, ${sayX(at)}: ${sayY(value)}`))));
    out.append(group);
    ends.push({ y: axis.place(points.at(-1)[1]), each, group, index });
  }
  // Names beside their ends, pushed apart.
  ends.sort((a, b) => a.y - b.y);
  let last = -Infinity;
  for (const end of ends) {
    end.at = Math.max(end.y, last + 16, 12);
    last = end.at;
  }
  const over = last - (tall - 6);
  if (over > 0) {
    let ceiling = tall - 6;
    for (const end of [...ends].reverse()) {
      end.at = Math.min(end.at, ceiling);
      ceiling = end.at - 16;
    }
  }
  for (const { y, at, each, group } of ends) {
    group.append(s('path', { class: 'lead', d: `M${right - 14} ${y.toFixed(1)}L${right + 10} ${at.toFixed(1)}` }), label(right + 14, at + 4, each.name, 'start', 'toned'));
  }
  return out;
}
