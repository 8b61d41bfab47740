// The first page: nodes, and what passes between them. Few nodes are cards around the host, more are a grid of cards, and
// many are a field of squares.

import { h, s, text, attribute, style, fill, icon, Keyed, soon } from './dom.js';
import * as format from './format.js';
import { isa, kind, transport } from './isa.js';
import { Spark } from './chart.js';
import { Field } from './field.js';
import { shortened } from './text.js';
import { Table } from './table.js';
import { DOMAIN_COLUMNS } from './domains.js';
import { eventColumns } from './events.js';

/** More nodes than that besides the host are a grid, and then a field. */
const AROUND = 10;
const CARDS = 60;
/** Less width than that, and cards stand under each other. */
const NARROW = 760;

const known = (value) => value !== null && value !== undefined;

/** A machine's figures, over the map. */
class Figures {
  constructor(live) {
    this.live = live;
    const names = [['nodes', 'Nodes'], ['load', 'Load'], ['domains', 'Domains'], ['channels', 'Channels'], ['rate', 'Messages'], ['bytes', 'Traffic'], ['regions', 'Regions']];
    this.values = new Map(names.map(([key]) => [key, h('dd')]));
    this.node = h('dl', { class: 'figures' }, names.map(([key, title]) => h('div', null, h('dt', null, title), this.values.get(key))));
  }

  show() {
    const row = this.live.row();
    if (!row) return;
    const put = (key, value) => text(this.values.get(key), value);
    put('nodes', row.nodes_up === row.nodes ? format.count(row.nodes) : `${row.nodes_up} of ${row.nodes}`);
    put('load', row.cores && known(row.load) ? format.load(row.load / row.cores) : '–');
    put('domains', format.count(row.domains));
    put('channels', format.count(row.channels));
    put('rate', format.perSecond(row.messages_per_s));
    put('bytes', format.bytesPerSecond(row.bytes_per_s));
    put('regions', format.count(row.regions));
  }
}

/** Jobs that say how they go: a way to each. */
class Jobs {
  constructor(live) {
    this.node = h('nav', { class: 'jobs', 'aria-label': 'Jobs', hidden: true });
    this.list = new Keyed(this.node, (key) => {
      const name = h('b', { class: 'data' });
      const about = h('span', { class: 'faint data' });
      return {
        node: h('a', { href: `#/job/${encodeURIComponent(key)}` }, icon('results'), name, about),
        update: () => {
          const state = this.watch.rows.get(`job/${key}`)?.attributes;
          const figure = this.watch.rows.get(`job/${key}/figure`)?.attributes;
          text(name, `Job ${key}`);
          const modularity = Number(state?.modularity);
          text(about, shortened([state?.phase ?? (figure ? 'done' : ''), state?.modularity && Number.isFinite(modularity) ? `modularity ${modularity.toFixed(4)}` : null, !state && figure?.title].filter(Boolean).join(' · '), 80));
        },
      };
    });
    this.watch = live.watch({ view: 'names', scope: 'machine', pattern: 'job/*', offset: 0, limit: 40 }, () => {
      const keys = [...new Set(this.watch.order.map((name) => /^job\/([0-9.]+)(\/figure)?$/.exec(name)?.[1]).filter(Boolean))].reverse().slice(0, 8);
      this.list.set(keys);
      this.node.hidden = keys.length === 0;
    });
  }

  stop() {
    this.watch.stop();
  }
}

/** The card of a node. */
class Card {
  constructor(map, name) {
    this.map = map;
    this.name = name;
    this.title = h('a', { class: 'data name', href: `#/node/${encodeURIComponent(name)}` });
    this.isa = h('span', { class: 'chip' });
    this.kind = h('span', { class: 'faint kind' });
    this.state = h('p', { class: 'state' });
    this.cores = h('div', { class: 'cores', 'aria-hidden': 'true' });
    this.load = h('b');
    this.spark = map.sparks ? new Spark({ least: 1000 }) : null;
    this.memory = h('span', { class: 'fill' });
    this.memoryText = h('span');
    this.window = h('span', { class: 'fill' });
    this.windowText = h('span');
    this.windowRow = h('div', { class: 'gauge', title: 'Of the window that nodes share: lent to channels and regions' }, h('span', null, 'Window'), h('span', { class: 'rail' }, this.window), this.windowText);
    this.linkText = h('span');
    this.linkRow = h('div', { class: 'gauge wordy' }, h('span', null, 'Link'), this.linkText);
    this.domains = h('a', { class: 'faint' });
    this.power = h('span', { class: 'faint' });
    this.local = h('span', { class: 'faint' });
    this.node = h('article', { class: 'node' },
      h('header', null, this.title, this.isa),
      this.kind, this.state,
      h('div', { class: 'body' },
        h('div', { class: 'work' }, this.cores, h('div', { class: 'line' }, h('span', null, 'Load ', this.load), this.spark?.node)),
        h('div', { class: 'gauge' }, h('span', null, 'Memory'), h('span', { class: 'rail' }, this.memory), this.memoryText),
        this.windowRow, this.linkRow,
        h('footer', null, this.domains, this.local, this.power)));
    this.node.addEventListener('click', (event) => {
      if (!event.target.closest('a')) location.hash = `#/node/${encodeURIComponent(name)}`;
    });
    if (this.spark) {
      this.detail = map.live.watch({ view: 'node', node: name }, () => this.update());
      this.history = map.live.watch({ view: 'history', part: `node:${name}`, measure: 'load', step_ms: 1000 }, (watch) => {
        const points = watch.first()?.points ?? [];
        this.spark.show(points.length < 60 ? [...Array(60 - points.length).fill(null), ...points] : points);
      });
    }
  }

  update() {
    const row = this.map.nodes.rows.get(this.name);
    if (!row) return;
    const { name, tone } = isa(row.isa);
    attribute(this.node, 'data-phase', row.phase);
    attribute(this.node, 'data-tone', tone);
    text(this.title, row.name);
    text(this.isa, name);
    text(this.kind, row.kind === 'host' ? kind(row.kind) : [kind(row.kind), row.generation > 1 && row.phase === 'up' ? `started ${row.generation} times` : ''].filter(Boolean).join(' · '));
    if (row.phase === 'up') fill(this.state);
    else if (row.phase === 'down') fill(this.state, icon('down'), h('strong', null, 'Down'), h('span', { class: 'cause' }, row.cause ?? ''));
    else fill(this.state, h('strong', null, 'Starting…'));
    this.state.hidden = row.phase === 'up';
    this.bars(row, this.detail?.first()?.core_list ?? null);
    text(this.load, row.phase === 'up' && known(row.load) ? `${format.load(row.cores ? row.load / row.cores : 0)} of ${row.shared ? 'the host’s ' : ''}${format.several(row.cores, 'core')}` : '–');
    attribute(this.node, 'data-shared', row.shared ? '' : null);
    attribute(this.node, 'title', row.shared ? 'It runs on the host’s kernel: load and memory are of its own processes, and part of the host’s' : null);
    style(this.memory, 'width', `${row.memory_bytes ? Math.min(100, (row.memory_used_bytes / row.memory_bytes) * 100) : 0}%`);
    text(this.memoryText, format.memory(row) ?? '–');
    this.windowRow.hidden = !row.window_bytes;
    style(this.window, 'width', `${row.window_bytes ? Math.min(100, (row.window_lent_bytes / row.window_bytes) * 100) : 0}%`);
    text(this.windowText, format.part(row.window_lent_bytes, row.window_bytes));
    text(this.domains, format.several(row.domains, 'domain'));
    attribute(this.domains, 'href', `#/domains?node=${encodeURIComponent(row.name)}`);
    text(this.power, known(row.power_mw) ? format.power(row.power_mw) : '');
    const own = this.map.links.rows.get(`${row.name}-${row.name}`);
    const link = this.map.links.rows.get(`${this.map.centre}-${row.name}`) ?? this.map.links.rows.get(`${row.name}-${this.map.centre}`);
    this.linkRow.hidden = !link || !this.map.crowded || row.name === this.map.centre;
    if (link) {
      const rate = link.forth_bytes_per_s + link.back_bytes_per_s;
      text(this.linkText, [transport(link.transport), link.round_trip_ns ? format.nanoseconds(link.round_trip_ns) : null, this.map.form === 'grid' && rate ? format.bytesPerSecond(rate) : null, link.channels ? format.several(link.channels, 'channel') : null].filter(Boolean).join(' · '));
    }
    text(this.local, own?.channels ? `${format.several(own.channels, 'channel')} within, ${format.perSecond(own.forth_per_s + own.back_per_s)}` : '');
  }

  /** A bar for each processor; one for all of them where they are not told apart. */
  bars(row, list) {
    const loads = row.phase !== 'up' ? [] : list?.length ? list.slice(0, 64).map((core) => core.load) : [row.cores ? (row.load ?? 0) / row.cores : 0];
    const shown = loads.length;
    while (this.cores.children.length > shown) this.cores.lastChild.remove();
    while (this.cores.children.length < shown) this.cores.append(h('span', { class: 'core' }, h('i')));
    for (const [index, value] of loads.entries()) style(this.cores.children[index].firstChild, 'height', `${Math.max(2, value / 10).toFixed(0)}%`);
  }

  stop() {
    this.detail?.stop();
    this.history?.stop();
  }
}

/** A link: a curve between two cards, and what passes. */
class Curve {
  constructor(map, key) {
    this.map = map;
    this.key = key;
    this.line = s('path', { class: 'wire' });
    this.flow = s('path', { class: 'flow' });
    this.drawing = s('g', null, this.line, this.flow);
    this.rate = h('b');
    this.about = h('span');
    this.node = h('a', { class: 'label' }, this.rate, this.about);
    map.wires.append(this.drawing);
  }

  update() {
    const row = this.map.links.rows.get(this.key);
    if (!row) return;
    const bytes = row.forth_bytes_per_s + row.back_bytes_per_s;
    const rate = row.forth_per_s + row.back_per_s;
    // From a hair for a kilobyte to a rope for ten gigabytes a second.
    const width = bytes > 0 ? Math.min(14, 1.5 + Math.max(0, Math.log10(bytes) - 2) * 1.5) : 1.5;
    style(this.line, 'stroke-width', `${width.toFixed(1)}px`);
    style(this.flow, 'stroke-width', `${Math.max(1.5, width - 2).toFixed(1)}px`);
    const down = [row.a, row.b].some((name) => this.map.nodes.rows.get(name)?.phase === 'down');
    const moves = rate > 0 && !down && this.map.live.fresh();
    attribute(this.drawing, 'data-moves', moves ? '' : null);
    attribute(this.drawing, 'data-back', row.back_bytes_per_s > row.forth_bytes_per_s ? '' : null);
    style(this.flow, 'animation-duration', `${(2.4 / Math.max(0.4, Math.min(4, Math.log10(rate + 1)))).toFixed(2)}s`);
    attribute(this.drawing, 'data-down', down ? '' : null);
    attribute(this.node, 'data-down', down ? '' : null);
    text(this.rate, down ? 'no link' : rate > 0 ? (this.map.crowded ? format.bytesPerSecond(bytes) : `${format.bytesPerSecond(bytes)} · ${format.perSecond(rate)}`) : 'quiet');
    const about = [transport(row.transport), row.round_trip_ns ? format.nanoseconds(row.round_trip_ns) : null, row.channels ? format.several(row.channels, 'channel') : null].filter(Boolean).join(' · ');
    text(this.about, about);
    this.about.hidden = this.map.crowded;
    const other = row.a === this.map.centre ? row.b : row.a;
    attribute(this.node, 'href', `#/channels?node=${encodeURIComponent(other)}`);
    attribute(this.node, 'title', `${row.a} ↔ ${row.b}: ${format.bytesPerSecond(row.forth_bytes_per_s)} there, ${format.bytesPerSecond(row.back_bytes_per_s)} back; the time is there and back between the two monitors`);
  }

  stop() {
    this.drawing.remove();
  }
}

class Map_ {
  constructor(root, { live }) {
    this.live = live;
    this.figures = new Figures(live);
    this.space = h('div', { class: 'map' });
    this.note = h('p', { class: 'notice' }, 'Waiting for the machine…');
    this.jobs = new Jobs(live);
    const heading = (title, href, more) => h('header', null, h('h2', null, title), h('a', { href }, more));
    this.busiest = new Table(live, {
      title: 'Busiest domains', base: { view: 'domains', state: 'live' }, sort: 'load', page: 6, href: (row) => `#/domain/${row.key}`, empty: 'No domain runs.',
      columns: DOMAIN_COLUMNS.filter(({ key }) => ['id', 'program', 'node', 'load', 'memory'].includes(key)), heading: heading('Busiest domains', '#/domains', 'All domains'),
    });
    this.latest = new Table(live, {
      title: 'Latest events', base: { view: 'events' }, page: 6, empty: 'Nothing has happened yet.', columns: eventColumns(live), heading: heading('Latest events', '#/events', 'All events'),
    });
    root.append(this.figures.node, this.jobs.node, this.space, this.note, h('div', { class: 'below' }, this.busiest.node, this.latest.node));
    this.aging = setInterval(() => this.latest.show(), 2000);
    this.space.hidden = true;
    this.wires = s('svg', { class: 'wires', 'aria-hidden': 'true' });
    this.form = null;
    this.nodes = live.watch({ view: 'nodes' }, () => this.show());
    this.links = null;
    this.place = () => this.lay();
    this.resized = new ResizeObserver(() => soon(this.place));
    this.resized.observe(this.space);
    this.told = () => this.figures.show();
    live.listeners.add(this.told);
  }

  show() {
    const rows = this.nodes.list();
    if (!rows.length) {
      text(this.note, this.nodes.error ?? (this.nodes.waiting ? 'Waiting for the machine…' : 'This machine has no nodes.'));
      this.note.hidden = false;
      this.space.hidden = true;
      return;
    }
    this.note.hidden = true;
    this.space.hidden = false;
    this.centre = (rows.find((row) => row.kind === 'host') ?? rows[0]).name;
    const others = rows.length - 1;
    const form = others > CARDS ? 'field' : others > AROUND ? 'grid' : 'around';
    if (form !== this.form) this.become(form);
    // What there is to say of a link stands beside it where there is room, or else on the node's card.
    this.crowded = form === 'grid' || (others > 2 && this.space.clientWidth >= NARROW);
    this.figures.show();
    if (form === 'field') {
      this.field.show(rows);
      return;
    }
    const keys = rows.map((row) => row.key);
    this.cards.set(keys);
    if (form === 'around') {
      const known = new Set(rows.map((row) => row.name));
      this.curves.set(this.links.list().filter((row) => row.a !== row.b && known.has(row.a) && known.has(row.b)).map((row) => row.key));
    }
    this.lay();
  }

  become(form) {
    this.cards?.stop();
    this.curves?.stop();
    this.field?.stop();
    this.form = form;
    this.sparks = form === 'around';
    attribute(this.space, 'data-form', form);
    fill(this.space);
    if (form === 'field') {
      this.links?.stop();
      this.links = null;
      this.field = new Field(this.space, this.live);
      return;
    }
    this.field = null;
    this.links ??= this.live.watch({ view: 'links' }, () => this.show());
    const cards = h('div', { class: 'nodes' });
    const labels = h('div', { class: 'labels' });
    this.space.append(this.wires, cards, labels);
    this.cards = new Keyed(cards, (key) => new Card(this, key));
    this.curves = new Keyed(labels, (key) => new Curve(this, key));
  }

  /** Puts cards where they belong, and curves between them. */
  lay() {
    if (this.form !== 'around') return;
    const width = this.space.clientWidth;
    if (!width) return;
    const parts = this.cards.parts;
    const names = [...parts.keys()];
    const others = names.filter((name) => name !== this.centre);
    const narrow = width < NARROW;
    attribute(this.space, 'data-narrow', narrow ? '' : null);
    const places = narrow ? this.stack(others, width) : this.columns(others, width);
    for (const [name, { x, y, w }] of places.at) {
      const { node } = parts.get(name);
      style(node, 'transform', `translate(${Math.round(x)}px, ${Math.round(y)}px)`);
      style(node, 'width', `${Math.round(w)}px`);
    }
    style(this.space, 'height', `${Math.ceil(places.height)}px`);
    attribute(this.wires, 'viewBox', `0 0 ${width} ${Math.ceil(places.height)}`);
    for (const [key, curve] of this.curves.parts) {
      const row = this.links.rows.get(key);
      if (row) this.wire(curve, places.at.get(row.a), places.at.get(row.b), narrow);
    }
  }

  heightOf(name, w) {
    const { node } = this.cards.parts.get(name);
    style(node, 'width', `${Math.round(w)}px`);
    return node.offsetHeight;
  }

  /** The host in the middle, the others left and right of it. */
  columns(others, width) {
    const sides = others.length === 1 ? [[], others] : [others.filter((_, index) => index % 2 === 1), others.filter((_, index) => index % 2 === 0)];
    const used = sides.filter((side) => side.length).length;
    const w = Math.min(340, used === 2 ? (width - 300) / 3 : 380);
    const gap = Math.min(220, used === 2 ? (width - 3 * w) / 2 : width - 2 * w);
    const total = (used + 1) * w + used * gap;
    const left = (width - total) / 2;
    const at = new Map();
    const between = 24;
    const tall = sides.map((side) => side.map((name) => this.heightOf(name, w)));
    const sum = (list) => list.reduce((all, each) => all + each + between, -between);
    const own = this.heightOf(this.centre, w);
    const height = Math.max(own, ...tall.map((list) => (list.length ? sum(list) : 0))) + 16;
    let x = left;
    for (const [index, side] of sides.entries()) {
      if (side.length) {
        let y = (height - sum(tall[index])) / 2;
        for (const [number, name] of side.entries()) {
          at.set(name, { x, y, w, h: tall[index][number], side: index });
          y += tall[index][number] + between;
        }
        x += w + gap;
      }
      if (index === 0) {
        at.set(this.centre, { x, y: (height - own) / 2, w, h: own, side: -1 });
        x += w + gap;
      }
    }
    return { at, height };
  }

  /** One under the other, with links between. */
  stack(others, width) {
    const at = new Map();
    let y = 0;
    for (const [index, name] of [this.centre, ...others].entries()) {
      const inset = index === 0 ? 0 : 28;
      const w = width - inset;
      const tall = this.heightOf(name, w);
      at.set(name, { x: inset, y, w, h: tall, side: index === 0 ? -1 : 1 });
      y += tall + 64;
    }
    return { at, height: y - 64 + 8 };
  }

  wire(curve, a, b, narrow) {
    if (!a || !b) return;
    let [from, to] = [a, b];
    const host = a.side === -1 ? a : b.side === -1 ? b : null;
    let d;
    let middle;
    if (narrow) {
      if (!host) [from, to] = a.y < b.y ? [a, b] : [b, a];
      else [from, to] = [host, host === a ? b : a];
      const x = 12;
      const end = to.y + 26;
      d = host ? `M${x} ${from.y + from.h}V${end - 12}q0 12 12 12H${to.x}` : `M${from.x + from.w - 20} ${from.y + from.h}V${to.y}`;
      middle = { x: to.x + 4, y: to.y - 56, w: to.w };
    } else if (host) {
      const other = host === a ? b : a;
      const right = other.side === 1;
      const start = { x: right ? host.x + host.w : host.x, y: host.y + host.h / 2 };
      const end = { x: right ? other.x : other.x + other.w, y: other.y + other.h / 2 };
      const bend = (end.x - start.x) / 2;
      d = `M${start.x} ${start.y}C${start.x + bend} ${start.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}`;
      // Where several leave the host they are apart only near their ends.
      const t = this.crowded ? 0.62 : 0.5;
      const along = (p0, p1, p2, p3) => (1 - t) ** 3 * p0 + 3 * (1 - t) ** 2 * t * p1 + 3 * (1 - t) * t ** 2 * p2 + t ** 3 * p3;
      middle = { x: along(start.x, start.x + bend, end.x - bend, end.x), y: along(start.y, start.y, end.y, end.y), w: Math.abs(end.x - start.x) - 16 };
      if (this.crowded) middle.y += 20;
    } else {
      const out = a.side === b.side ? (a.side === 1 ? a.x + a.w : a.x) : null;
      const [ya, yb] = [a.y + a.h / 2 + 18, b.y + b.h / 2 - 18];
      if (out !== null) {
        const far = out + (a.side === 1 ? 60 : -60);
        d = `M${out} ${ya}C${far} ${ya} ${far} ${yb} ${out} ${yb}`;
        middle = { x: out + (a.side === 1 ? 44 : -44), y: (ya + yb) / 2, w: 110 };
      } else {
        const [l, r] = a.x < b.x ? [a, b] : [b, a];
        const top = Math.min(l.y, r.y) - 4;
        d = `M${l.x + l.w} ${l.y + 20}C${l.x + l.w + 120} ${top} ${r.x - 120} ${top} ${r.x} ${r.y + 20}`;
        middle = { x: (l.x + l.w + r.x) / 2, y: top + 14, w: 160 };
      }
    }
    attribute(curve.node, 'data-boxed', this.crowded && !narrow ? '' : null);
    attribute(curve.line, 'd', d);
    attribute(curve.flow, 'd', d);
    style(curve.node, 'left', `${Math.round(middle.x)}px`);
    style(curve.node, 'top', `${Math.round(middle.y)}px`);
    style(curve.node, 'max-width', `${Math.round(Math.max(96, middle.w))}px`);
  }

  key(event) {
    if (this.form === 'field') return this.field.key(event);
    const step = { ArrowRight: 1, ArrowDown: 1, j: 1, ArrowLeft: -1, ArrowUp: -1, k: -1 }[event.key];
    if (!step) return false;
    const links = [...this.space.querySelectorAll('.node .name')];
    if (!links.length) return false;
    const now = links.indexOf(document.activeElement);
    links[now < 0 ? 0 : (now + step + links.length) % links.length].focus();
    return true;
  }

  stop() {
    this.nodes.stop();
    this.links?.stop();
    this.jobs.stop();
    this.busiest.stop();
    this.latest.stop();
    clearInterval(this.aging);
    this.cards?.stop();
    this.curves?.stop();
    this.field?.stop();
    this.resized.disconnect();
    this.live.listeners.delete(this.told);
  }
}

/** The view. */
export function map(root, context) {
  return new Map_(root, context);
}
