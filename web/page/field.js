// Many nodes: a square for each, coloured by load. Every square can be reached by pointer and by keys, and is said aloud.

import { h, text, style, soon } from './dom.js';
import * as format from './format.js';
import { isa } from './isa.js';

const SIZES = [10, 14, 18, 24, 32, 44, 60, 84, 112];
const GAP = 3;

export class Field {
  constructor(root, live) {
    this.live = live;
    this.rows = [];
    this.at = -1;
    this.over = -1;
    this.size = null;
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.option = h('span', { role: 'option', id: 'field-option', 'aria-selected': 'true', class: 'unseen' }, 'none chosen');
    this.box = h('div', { class: 'field', role: 'listbox', tabindex: '0', 'aria-label': 'Nodes, by load', 'aria-activedescendant': 'field-option' }, this.canvas, this.option);
    this.card = h('div', { class: 'tip', hidden: true });
    this.count = h('span', { class: 'where' });
    this.order = h('select', { 'aria-label': 'Order', onchange: () => this.show(this.given) },
      h('option', { value: 'name' }, 'in the machine’s order'), h('option', { value: 'load' }, 'busiest first'), h('option', { value: 'phase' }, 'down first'));
    const zoom = (by, label, sign) => h('button', { type: 'button', 'aria-label': label, title: `${label} (${sign})`, onclick: () => this.zoom(by) }, sign);
    const scale = h('span', { class: 'scale', 'aria-hidden': 'true' }, 'idle', [0, 2, 4, 6, 8, 10].map((step) => h('i', { style: { background: `var(--heat-${step})` } })), 'busy', h('i', { class: 'crossed' }), 'down');
    this.node = h('section', { class: 'panel' }, h('header', { class: 'controls' }, this.order, scale, h('div', { class: 'pages' }, this.count, zoom(-1, 'Smaller', '-'), zoom(1, 'Larger', '+'))), h('div', { class: 'scroll field-scroll' }, this.box), this.card);
    root.append(this.node);
    this.paint = () => this.draw();
    this.resized = new ResizeObserver(() => soon(this.paint));
    this.resized.observe(this.node);
    this.recolour = () => {
      this.colours = null;
      soon(this.paint);
    };
    addEventListener('themechange', this.recolour);
    this.canvas.addEventListener('pointermove', (event) => this.hover(this.hit(event)));
    this.canvas.addEventListener('pointerleave', () => this.hover(-1));
    this.canvas.addEventListener('click', (event) => this.open(this.hit(event)));
    this.canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1 : -1);
    }, { passive: false });
    this.box.addEventListener('focus', () => this.choose(Math.max(0, this.at)));
    this.box.addEventListener('blur', () => {
      soon(this.paint);
      this.hover(-1);
    });
  }

  show(rows) {
    this.given = rows;
    const share = (row) => (row.cores ? row.load / row.cores : 0);
    const by = this.order.value;
    this.rows = by === 'name' ? rows : [...rows].sort(by === 'load' ? (a, b) => share(b) - share(a) : (a, b) => (b.phase === 'down') - (a.phase === 'down'));
    const down = rows.filter((row) => row.phase === 'down').length;
    text(this.count, `${format.several(rows.length, 'node')}${down ? `, ${format.count(down)} down` : ''}`);
    soon(this.paint);
    if (this.over >= 0) this.tip(this.over);
  }

  palette() {
    if (!this.colours) {
      const given = getComputedStyle(document.documentElement);
      const read = (name) => given.getPropertyValue(name).trim();
      this.colours = { heat: Array.from({ length: 11 }, (_, step) => read(`--heat-${step}`)), down: read('--down'), ground: read('--sunk'), ink: read('--ink'), line: read('--focus'), on: read('--heat-ink') };
    }
    return this.colours;
  }

  draw() {
    const width = this.node.querySelector('.scroll').clientWidth;
    if (!width || !this.rows.length) return;
    if (this.size === null) {
      // The largest squares of which all fit on the screen.
      const room = Math.max(240, innerHeight - 300);
      const fits = (size) => Math.ceil(this.rows.length / Math.max(1, Math.floor((width - 8) / (size + GAP)))) * (size + GAP) <= room;
      this.size = SIZES.findLastIndex(fits);
      if (this.size < 0) this.size = 0;
    }
    const size = SIZES[this.size];
    this.step = size + GAP;
    this.across = Math.max(1, Math.floor((width - 8) / this.step));
    const height = Math.ceil(this.rows.length / this.across) * this.step + 8;
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      style(this.canvas, 'width', `${width}px`);
      style(this.canvas, 'height', `${height}px`);
    }
    const { heat, down, ground, ink, line, on } = this.palette();
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'top';
    for (const [index, row] of this.rows.entries()) {
      const x = 4 + (index % this.across) * this.step;
      const y = 4 + Math.floor(index / this.across) * this.step;
      const up = row.phase === 'up';
      const share = up && row.cores ? row.load / row.cores / 1000 : 0;
      const step = Math.max(0, Math.min(10, Math.ceil(share * 10)));
      pen.fillStyle = up ? heat[step] : ground;
      pen.beginPath();
      pen.roundRect(x, y, size, size, Math.min(4, size / 5));
      pen.fill();
      if (row.phase === 'down') {
        pen.strokeStyle = down;
        pen.lineWidth = Math.max(1.5, size / 12);
        pen.beginPath();
        pen.moveTo(x + size * 0.2, y + size * 0.2);
        pen.lineTo(x + size * 0.8, y + size * 0.8);
        pen.moveTo(x + size * 0.8, y + size * 0.2);
        pen.lineTo(x + size * 0.2, y + size * 0.8);
        pen.stroke();
        pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
      }
      if (size >= 60) {
        pen.fillStyle = up && step >= 6 ? on : ink;
        pen.fillText(row.name.slice(0, Math.floor(size / 7)), x + 6, y + 6);
        if (up) pen.fillText(format.load(share * 1000), x + 6, y + 22);
      }
      const focused = index === this.at && document.activeElement === this.box;
      if (focused || index === this.over) {
        pen.strokeStyle = line;
        pen.lineWidth = 2;
        pen.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3);
      }
    }
  }

  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - 4) / this.step);
    const line = Math.floor((event.clientY - box.top - 4) / this.step);
    const index = line * this.across + column;
    return column >= 0 && column < this.across && index >= 0 && index < this.rows.length ? index : -1;
  }

  hover(index) {
    this.over = index;
    style(this.canvas, 'cursor', index >= 0 ? 'pointer' : 'default');
    this.tip(index);
    soon(this.paint);
  }

  tip(index) {
    const row = this.rows[index];
    this.card.hidden = !row;
    if (!row) return;
    const words = describe(row);
    this.card.replaceChildren(h('b', { class: 'data' }, row.name), ...words.map((word) => h('span', null, word)));
    const x = 4 + (index % this.across) * this.step;
    const y = 4 + Math.floor(index / this.across) * this.step;
    const scroll = this.node.querySelector('.scroll');
    const left = Math.min(x, Math.max(0, scroll.clientWidth - 240));
    style(this.card, 'left', `${left + scroll.offsetLeft}px`);
    style(this.card, 'top', `${y - scroll.scrollTop + scroll.offsetTop + this.step + 6}px`);
  }

  choose(index) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, index));
    const row = this.rows[this.at];
    if (!row) return;
    text(this.option, [row.name, ...describe(row)].join(', '));
    const y = Math.floor(this.at / this.across) * this.step;
    const scroll = this.node.querySelector('.scroll');
    if (y < scroll.scrollTop) scroll.scrollTop = y;
    else if (y + this.step + 8 > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = y + this.step + 8 - scroll.clientHeight;
    this.hover(this.at);
  }

  open(index) {
    const row = this.rows[index];
    if (row) location.hash = `#/node/${encodeURIComponent(row.name)}`;
  }

  zoom(by) {
    this.size = Math.max(0, Math.min(SIZES.length - 1, (this.size ?? 3) + by));
    this.hover(-1);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across, j: this.across, k: -this.across };
    if (event.key === '+' || event.key === '-') {
      this.zoom(event.key === '+' ? 1 : -1);
      return true;
    }
    if (event.key === 'Enter' && document.activeElement === this.box) {
      this.open(this.at);
      return true;
    }
    const step = steps[event.key];
    if (!step) return false;
    if (document.activeElement !== this.box) this.box.focus();
    else this.choose(this.at + step);
    return true;
  }

  stop() {
    this.resized.disconnect();
    removeEventListener('themechange', this.recolour);
    this.node.remove();
  }
}

function describe(row) {
  if (row.phase === 'down') return ['down', row.cause].filter(Boolean);
  if (row.phase === 'starting') return ['starting'];
  return [isa(row.isa).name, `load ${format.load(row.cores ? row.load / row.cores : 0)} of ${format.several(row.cores, 'core')}`, format.several(row.domains, 'domain'), format.memory(row)].filter(Boolean);
}
