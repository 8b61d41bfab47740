// A job that draws itself: how far it is, and what it found. All of it comes from records that a program made, so nothing of it is believed.

import { h, s, text, attribute, fill } from './dom.js';
import * as format from './format.js';
import { isa } from './isa.js';
import { Facts } from './facts.js';
import { shortened, visible } from './text.js';

const MOST_CIRCLES = 500;
const MOST_LINES = 2000;
const SIDE = 1000;

const finite = (value) => typeof value === 'number' && Number.isFinite(value);
/** A number of an attribute, which comes as a number or as its text. */
const number = (value) => {
  const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return finite(read) ? read : null;
};

/** What is sound of a figure, or null if it is of no kind that is known here. */
export function checked(given) {
  let found;
  try {
    found = typeof given === 'string' ? JSON.parse(given) : given;
  } catch {
    return null;
  }
  if (found === null || typeof found !== 'object' || found.kind !== 'clustered-graph') return null;
  const list = (value) => (Array.isArray(value) ? value : []);
  const circles = list(found.circles).slice(0, MOST_CIRCLES).filter((each) => each && finite(each.x) && finite(each.y) && finite(each.r) && each.r > 0 && each.r <= SIDE && Math.abs(each.x) <= 2 * SIDE && Math.abs(each.y) <= 2 * SIDE)
    .map((each) => ({ x: each.x, y: each.y, r: each.r, size: finite(each.size) ? each.size : null, names: list(each.names).slice(0, 8).map((name) => shortened(name, 40)) }));
  const dropped = circles.length !== list(found.circles).length;
  const edges = dropped ? [] : list(found.lines).slice(0, MOST_LINES).filter((each) => Array.isArray(each) && Number.isInteger(each[0]) && Number.isInteger(each[1]) && each[0] >= 0 && each[1] >= 0 && each[0] < circles.length && each[1] < circles.length && finite(each[2]) && each[2] > 0);
  const nodes = list(found.nodes).slice(0, 64).filter((each) => Array.isArray(each) && finite(each[2])).map(([name, kind, share]) => ({ name: shortened(name ?? '', 40), isa: String(kind ?? ''), share }));
  return { title: shortened(found.title ?? '', 200), vertices: number(found.vertices), edges: number(found.edges), modularity: number(found.modularity), communities: number(found.communities), circles, lines: edges, nodes };
}

class Drawing {
  constructor(figure) {
    this.figure = figure;
    const heaviest = figure.lines.reduce((most, line) => Math.max(most, line[2]), 1);
    this.curves = figure.lines.map(([a, b, weight]) => {
      const [from, to] = [figure.circles[a], figure.circles[b]];
      return { a, b, weight, node: s('line', { class: 'edge', x1: from.x, y1: from.y, x2: to.x, y2: to.y, 'stroke-width': (0.6 + 7 * Math.sqrt(weight / heaviest)).toFixed(2) }) };
    });
    this.circles = figure.circles.map((circle, index) => s('g', { class: `community tone-${index % 9}`, tabindex: '0', role: 'img', 'aria-label': `${format.several(circle.size, 'member')}: ${circle.names.join(', ')}` },
      s('circle', { cx: circle.x, cy: circle.y, r: circle.r }), this.label(circle)));
    this.svg = s('svg', { class: 'graph', viewBox: this.box(), role: 'group', 'aria-label': 'Communities and what joins them' }, s('g', { 'aria-hidden': 'true' }, this.curves.map((curve) => curve.node)), this.circles);
    this.tip = h('div', { class: 'tip still' });
    this.node = h('div', { class: 'graph-box' }, this.svg, this.tip);
    for (const [index, group] of this.circles.entries()) {
      group.addEventListener('pointerenter', () => this.show(index));
      group.addEventListener('focus', () => this.show(index));
      group.addEventListener('pointerleave', () => this.show(null));
      group.addEventListener('blur', () => this.show(null));
    }
    this.show(null);
  }

  box() {
    const { circles } = this.figure;
    if (!circles.length) return `0 0 ${SIDE} ${SIDE}`;
    const [left, top] = [Math.min(...circles.map((each) => each.x - each.r)), Math.min(...circles.map((each) => each.y - each.r))];
    const [right, bottom] = [Math.max(...circles.map((each) => each.x + each.r)), Math.max(...circles.map((each) => each.y + each.r))];
    return `${left - 20} ${top - 20} ${right - left + 40} ${bottom - top + 40}`;
  }

  /** A name within a circle that has room for one. */
  label(circle) {
    const name = circle.names[0] ?? '';
    const size = Math.min(26, circle.r / 2.2);
    if (size < 9 || !name) return null;
    const most = Math.max(3, Math.floor((circle.r * 1.8) / (size * 0.56)));
    return [s('text', { x: circle.x, y: circle.y + size * 0.1, 'text-anchor': 'middle', 'font-size': size.toFixed(1) }, shortened(name, most)),
      s('text', { class: 'size', x: circle.x, y: circle.y + size * 1.15, 'text-anchor': 'middle', 'font-size': (size * 0.72).toFixed(1) }, format.count(circle.size))];
  }

  show(index) {
    const { circles, lines } = this.figure;
    attribute(this.svg, 'data-chosen', index === null ? null : '');
    const near = new Set(index === null ? [] : [index]);
    for (const { a, b, node } of this.curves) {
      const touches = index !== null && (a === index || b === index);
      attribute(node, 'data-near', touches ? '' : null);
      if (touches) near.add(a).add(b);
    }
    for (const [other, group] of this.circles.entries()) attribute(group, 'data-near', near.has(other) ? '' : null);
    if (index === null) {
      text(this.tip, 'Point at a circle, or go from one to the next with Tab.');
      return;
    }
    const circle = circles[index];
    const joined = lines.filter(([a, b]) => a === index || b === index).reduce((sum, line) => sum + line[2], 0);
    fill(this.tip, h('b', { class: 'data' }, circle.names.join(', ') || 'a community'), h('span', null, format.several(circle.size, 'member')), h('span', null, `joined to ${near.size - 1} others by a weight of ${format.about(joined)}`));
  }
}

/** How good the communities were, from the first time that this page saw the job. */
class Progress {
  constructor() {
    this.points = [];
    this.line = s('path', { class: 'line' });
    this.dots = s('g');
    this.svg = s('svg', { viewBox: '0 0 600 140', preserveAspectRatio: 'none', role: 'img' }, s('g', { class: 'grid' }, [0, 0.25, 0.5, 0.75, 1].map((share) => s('line', { x1: 0, x2: 600, y1: 136 - share * 130, y2: 136 - share * 130 }))), this.line);
    this.now = h('output', { class: 'now' });
    this.node = h('figure', { class: 'chart', hidden: true }, h('figcaption', null, h('span', null, 'Modularity, by rounds'), this.now), h('div', { class: 'plot' }, this.svg));
  }

  add(rounds, value) {
    const last = this.points.at(-1);
    if (last && last[0] === rounds && last[1] === value) return;
    if (last && rounds < last[0]) this.points = [];
    this.points.push([rounds, value]);
    if (this.points.length > 600) this.points.splice(1, 1);
    const [least, most] = [this.points[0][0], Math.max(this.points.at(-1)[0], this.points[0][0] + 1)];
    const d = this.points.map(([at, high], index) => `${index ? 'L' : 'M'}${(((at - least) / (most - least)) * 600).toFixed(1)} ${(136 - Math.max(0, Math.min(1, high)) * 130).toFixed(1)}`).join('');
    attribute(this.line, 'd', this.points.length === 1 ? `${d}h1` : d);
    text(this.now, `${value.toFixed(6)} after ${format.several(rounds, 'round')}`);
    attribute(this.svg, 'aria-label', `Modularity ${value.toFixed(4)} after ${rounds} rounds`);
    this.node.hidden = this.points.length < 2;
  }
}

const KNOWN = new Set(['phase', 'elapsed_ms', 'rounds', 'modularity', 'level', 'vertices', 'edges']);

class Job {
  constructor(root, { live, id, retitle }) {
    Object.assign(this, { live, id, retitle });
    this.badge = h('span', { class: 'state-badge', 'data-state': 'ended' });
    this.title = h('p', { class: 'program data' });
    this.facts = new Facts(['Program', 'Phase', 'Time', 'Level', 'Rounds', 'Modularity', 'Graph of this level', 'Graph', 'Communities', 'More']);
    this.progress = new Progress();
    this.shares = h('div', { class: 'shares' });
    this.place = h('div');
    this.note = h('p', { class: 'notice' }, `Looking for what domain ${id} says of itself…`);
    this.head = h('section', { class: 'panel', hidden: true }, h('header', null, this.badge, this.title), this.facts.node, this.progress.node, this.shares);
    root.append(this.note, this.head, this.place);
    this.names = live.watch({ view: 'names', scope: 'machine', pattern: `job/${id}*`, offset: 0, limit: 20 }, () => this.show());
    this.domain = live.watch({ view: 'domain', domain: id }, () => this.show());
  }

  record(name) {
    return this.names.rows.get(name)?.attributes ?? null;
  }

  show() {
    const state = this.record(`job/${this.id}`);
    const shown = this.record(`job/${this.id}/figure`);
    const row = this.domain.first();
    this.note.hidden = Boolean(state || shown);
    this.head.hidden = !state && !shown;
    if (!state && !shown) {
      if (!this.names.waiting) text(this.note, this.names.error ?? `Domain ${this.id} draws nothing of itself. A program does that by records among the machine’s names.`);
      return;
    }
    const over = row ? row.ended_ms !== null && row.ended_ms !== undefined : !state;
    const phase = state?.phase ?? (over ? 'ended' : 'running');
    attribute(this.badge, 'data-state', over ? (row?.failed ? 'failed' : 'ended') : 'runs');
    text(this.badge, over ? row?.exit ?? 'ended' : phase);
    const { facts } = this;
    facts.put('Program', h('a', { href: `#/domain/${this.id}` }, row ? `${row.program} ${this.id}` : this.id));
    facts.put('Phase', state?.phase ?? null);
    facts.put('Time', format.duration(number(state?.elapsed_ms)) === '–' ? null : format.duration(number(state?.elapsed_ms)));
    facts.put('Level', number(state?.level) === null ? null : String(number(state.level)));
    facts.put('Rounds', number(state?.rounds) === null ? null : format.count(number(state.rounds)));
    const [vertices, edges] = [number(state?.vertices), number(state?.edges)];
    facts.put('Graph of this level', vertices === null ? null : `${format.several(vertices, 'vertex', 'vertices')}, ${format.several(edges, 'edge')}`);
    const [rounds, modularity] = [number(state?.rounds), number(state?.modularity)];
    if (rounds !== null && modularity !== null) this.progress.add(rounds, modularity);
    const others = Object.entries(state ?? {}).filter(([name]) => !KNOWN.has(name)).slice(0, 12).map(([name, value]) => `${name} ${shortened(value, 60)}`);
    facts.put('More', others.join(' · '));
    if (modularity !== null) facts.put('Modularity', modularity.toFixed(6));
    if (shown?.figure !== undefined && shown.figure !== this.drawn) {
      this.drawn = shown.figure;
      this.draw(shown);
    }
    text(this.title, this.figure?.title ?? shown?.title ?? row?.arguments ?? '');
    this.retitle(`Job ${this.id}`);
  }

  draw({ figure }) {
    const found = checked(figure);
    this.figure = found;
    if (!found) {
      fill(this.place, h('p', { class: 'notice' }, 'The job drew something that this page does not know:'), h('pre', { class: 'output' }, visible(figure).slice(0, 4000)));
      return;
    }
    const { facts } = this;
    facts.put('Graph', `${format.several(found.vertices, 'vertex', 'vertices')}, ${format.several(found.edges, 'edge')}`);
    facts.put('Communities', format.count(found.communities));
    if (found.modularity !== null) facts.put('Modularity', found.modularity.toFixed(6));
    fill(this.shares, found.nodes.map((each) => h('div', { class: 'gauge', 'data-tone': isa(each.isa).tone }, h('span', { class: 'data' }, `${each.name}${each.isa ? `, ${isa(each.isa).name}` : ''}`), h('span', { class: 'rail' }, h('span', { class: 'fill', style: { width: `${Math.max(0, Math.min(100, each.share * 100))}%` } })), h('span', null, format.share(each.share)))));
    const largest = h('table', null, h('caption', { class: 'unseen' }, 'The largest communities'), h('thead', null, h('tr', null, h('th', { scope: 'col', class: 'number' }, 'Members'), h('th', { scope: 'col' }, 'Those with most edges within it'))),
      h('tbody', null, found.circles.map((circle) => h('tr', null, h('td', { class: 'number' }, format.count(circle.size)), h('td', { class: 'data long' }, circle.names.join(', '))))));
    const drawing = new Drawing(found);
    fill(this.place, h('div', { class: 'job' },
      h('section', { class: 'panel' }, h('header', null, h('h2', null, 'What it found'), h('span', { class: 'faint' }, `the largest ${found.circles.length} of ${format.count(found.communities)} communities; areas are sizes, lines what joins them`)), drawing.node),
      h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Largest communities')), h('div', { class: 'scroll tall', tabindex: '0', role: 'region', 'aria-label': 'Largest communities' }, largest))));
  }

  stop() {
    this.names.stop();
    this.domain.stop();
  }
}

/** The view. */
export function job(root, context) {
  return new Job(root, context);
}
