// History, drawn: a small line beside a number, and a chart with its axis.

import { h, s, text, attribute, fill } from './dom.js';
import * as format from './format.js';

/** How long is looked back, and how far apart points are. */
export const SPANS = [
  { name: '1 min', step: 1000 },
  { name: '30 min', step: 30_000 },
  { name: '4 h', step: 240_000 },
];

/** A pleasant end of an axis that holds `value`. */
function ceiling(value, binary) {
  if (value <= 0) return 1;
  const base = binary ? 2 : 10;
  const step = base ** Math.floor(Math.log(value) / Math.log(base));
  const parts = binary ? [1, 1.25, 1.5, 2] : [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  for (const part of parts) if (value <= step * part * 1.0001) return step * part;
  return step * base;
}

/** Lines through `points` from left to right; a null is a gap. */
function path(points, width, height, most, closed) {
  let out = '';
  let begun = null;
  const step = points.length > 1 ? width / (points.length - 1) : 0;
  const place = (index) => `${(index * step).toFixed(1)} `;
  const close = (index) => {
    if (closed && begun !== null) out += `L${place(index)}${height}L${place(begun)}${height}Z`;
    begun = null;
  };
  for (const [index, value] of points.entries()) {
    if (value === null || value === undefined) {
      close(index - 1);
      continue;
    }
    const y = (height - Math.min(1, value / most) * height).toFixed(1);
    out += `${begun === null ? 'M' : 'L'}${place(index)}${y}`;
    begun ??= index;
  }
  close(points.length - 1);
  return out;
}

/** A line without an axis, beside the number that it leads to. */
export class Spark {
  constructor({ width = 120, height = 28, least = 0 } = {}) {
    this.size = [width, height];
    this.least = least;
    this.area = s('path', { class: 'area' });
    this.line = s('path', { class: 'line' });
    this.node = s('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, this.area, this.line);
  }

  show(points) {
    const [width, height] = this.size;
    const most = points.reduce((top, value) => Math.max(top, value ?? 0), this.least) || 1;
    attribute(this.area, 'd', path(points, width, height, most, true));
    attribute(this.line, 'd', path(points, width, height, most, false));
  }
}

/** A chart of one measure of one part, which looks back as far as `span` says. */
export class Chart {
  /** `unit` formats a value; `binary` values end at powers of two; `limit` is drawn as a line, and never lies outside. */
  constructor(live, { part, measure, title, unit, binary = false, limit = null, least = 0 }) {
    Object.assign(this, { live, part, measure, title, unit, binary, limit, least });
    this.now = h('output', { class: 'now' });
    this.area = s('path', { class: 'area' });
    this.line = s('path', { class: 'line' });
    this.rule = s('line', { class: 'limit', x1: 0, x2: 600 });
    this.cursor = s('line', { class: 'cursor', y1: 0, y2: 120, visibility: 'hidden' });
    this.grid = s('g', { class: 'grid' }, [0, 40, 80].map((y) => s('line', { x1: 0, x2: 600, y1: y, y2: y })));
    this.drawing = s('svg', { viewBox: '0 0 600 120', preserveAspectRatio: 'none', role: 'img' }, this.grid, this.area, this.line, this.rule, this.cursor);
    this.top = h('span', { class: 'tick' });
    this.left = h('span');
    this.node = h('figure', { class: 'chart' },
      h('figcaption', null, h('span', null, title), this.now),
      h('div', { class: 'plot' }, this.drawing, this.top),
      h('div', { class: 'axis' }, this.left, h('span', null, 'now')));
    this.points = [];
    this.drawing.addEventListener('pointermove', (event) => this.point(event));
    this.drawing.addEventListener('pointerleave', () => this.point(null));
    this.watch = null;
  }

  look(span) {
    this.span = span;
    const parameters = { view: 'history', part: this.part, measure: this.measure, step_ms: span.step };
    if (this.watch) this.watch.ask(parameters);
    else this.watch = this.live.watch(parameters, (watch) => this.show(watch));
    text(this.left, span.name);
  }

  show(watch) {
    const row = watch.first();
    if (!row || watch.error) {
      text(this.now, watch.error ? 'not known' : '');
      attribute(this.node, 'title', watch.error);
      return;
    }
    // A young past is drawn at the right end of its span.
    const wanted = 60;
    this.points = row.points.length < wanted ? [...Array(wanted - row.points.length).fill(null), ...row.points] : row.points;
    this.step = row.step_ms;
    const highest = this.points.reduce((top, value) => Math.max(top, value ?? 0), 0);
    const most = this.limit ? Math.max(this.limit, highest) : ceiling(Math.max(highest, this.least), this.binary);
    attribute(this.area, 'd', path(this.points, 600, 120, most, true));
    attribute(this.line, 'd', path(this.points, 600, 120, most, false));
    attribute(this.rule, 'visibility', this.limit ? 'visible' : 'hidden');
    if (this.limit) {
      const y = 120 - (this.limit / most) * 120;
      attribute(this.rule, 'y1', y);
      attribute(this.rule, 'y2', y);
    }
    text(this.top, this.unit(most));
    const last = this.points.at(-1) ?? null;
    if (!this.pointed) text(this.now, this.unit(last));
    attribute(this.drawing, 'aria-label', `${this.title}: now ${this.unit(last)}, at most ${this.unit(highest)} in ${this.span.name}`);
  }

  point(event) {
    this.pointed = event !== null;
    attribute(this.cursor, 'visibility', event ? 'visible' : 'hidden');
    if (!event || this.points.length < 2) {
      text(this.now, this.unit(this.points.at(-1) ?? null));
      return;
    }
    const box = this.drawing.getBoundingClientRect();
    const index = Math.max(0, Math.min(this.points.length - 1, Math.round(((event.clientX - box.left) / box.width) * (this.points.length - 1))));
    const x = (index / (this.points.length - 1)) * 600;
    attribute(this.cursor, 'x1', x);
    attribute(this.cursor, 'x2', x);
    const age = (this.points.length - 1 - index) * this.step;
    text(this.now, `${this.unit(this.points[index])} · ${age ? format.ago(age) : 'now'}`);
  }

  stop() {
    this.watch?.stop();
  }
}

/** Several charts that look back equally far. */
export class Charts {
  constructor(charts) {
    this.charts = charts;
    this.body = h('div', { class: 'charts' }, charts.map((chart) => chart.node));
    this.buttons = h('div', { class: 'segments', role: 'group', 'aria-label': 'How far back' });
    this.node = h('section', { class: 'panel' }, h('header', null, h('h2', null, 'History'), this.buttons), this.body);
    this.look(SPANS[0]);
  }

  look(span) {
    fill(this.buttons, SPANS.map((each) => h('button', { type: 'button', 'aria-pressed': each === span ? 'true' : 'false', onclick: () => this.look(each) }, each.name)));
    for (const chart of this.charts) chart.look(span);
  }

  stop() {
    for (const chart of this.charts) chart.stop();
  }
}
