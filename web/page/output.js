// What a program printed, as it comes: its tail, as text. However much there is, the page holds a bounded part of it.

import { h, text, soon } from './dom.js';
import * as format from './format.js';
import { Plain, visibleOutput } from './text.js';

const MOST_LINES = 4000;
const MOST_CHARACTERS = 1 << 20;
const LONGEST_LINE = 4000;

export class Output {
  /** `parameters` of the view: `output` or `console`. */
  constructor(live, parameters, title) {
    this.pre = h('pre', { class: 'output', tabindex: '0', role: 'log', 'aria-label': title, 'aria-live': 'off' });
    this.note = h('span', { class: 'faint' });
    this.follow = h('button', { type: 'button', 'aria-pressed': 'true', onclick: () => this.hold(!this.following) }, 'Follow');
    this.node = h('section', { class: 'panel' }, h('header', null, h('h2', null, title), this.note, h('div', { class: 'pages' }, this.follow,
      h('button', { type: 'button', onclick: () => this.keep(title) }, 'Save'))), this.pre);
    this.following = true;
    this.pre.addEventListener('scroll', () => {
      const end = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 24;
      if (end !== this.following && !this.moving) this.hold(end, false);
    });
    this.begin();
    this.paint = () => this.show();
    this.watch = live.watch(parameters, () => this.paint());
    this.watch.onpieces = (message, anew) => this.take(message, anew);
    this.show();
  }

  begin() {
    /** Lines that are not on the screen yet: `{stream, text}`. */
    this.fresh = [];
    this.lines = 0;
    this.characters = 0;
    this.left = 0;
    this.lost = 0;
    this.open = null;
    this.filters = new Map();
    this.ended = false;
    this.binary = false;
    this.any = false;
    this.pre.replaceChildren();
  }

  hold(follow, jump = true) {
    this.following = follow;
    this.follow.setAttribute('aria-pressed', follow ? 'true' : 'false');
    if (follow && jump) this.pre.scrollTop = this.pre.scrollHeight;
  }

  take(message, anew) {
    // After the connection was lost it is told from the beginning of what is kept.
    if (anew || message.full) this.begin();
    for (const { stream, text: piece } of message.pieces ?? []) {
      this.any = true;
      const kind = stream ?? 1;
      if (!this.filters.has(kind)) this.filters.set(kind, new Plain());
      this.add(kind, this.filters.get(kind).take(piece));
    }
    this.lost += message.lost ?? 0;
    this.ended = message.ended ?? this.ended;
    this.binary ||= Boolean(message.binary);
    soon(this.paint);
  }

  add(stream, given) {
    const parts = given.split('\n');
    const last = parts.length - 1;
    for (const [index, part] of parts.entries()) {
      // After the last newline nothing has begun.
      if (index === last && part === '') break;
      if (!this.open || this.open.stream !== stream) {
        this.open = { stream, text: '', node: null };
        this.fresh.push(this.open);
      } else if (this.open.node) this.fresh.push(this.open);
      const { open } = this;
      open.text = turned(open.text + part);
      if (open.text.length > LONGEST_LINE) {
        this.left += open.text.length - LONGEST_LINE;
        open.text = open.text.slice(-LONGEST_LINE);
      }
      if (index < last) this.open = null;
    }
    // A flood that comes faster than it is painted: only its end will be.
    if (this.fresh.length > MOST_LINES) {
      const gone = this.fresh.splice(0, this.fresh.length - MOST_LINES);
      this.left += gone.reduce((sum, line) => sum + (line.node ? 0 : line.text.length + 1), 0);
      if (gone.includes(this.open)) this.open = null;
    }
  }

  show() {
    const { pre } = this;
    for (const line of this.fresh) {
      const shown = `${visibleOutput(line.text.replace(/\r$/, ''))}\n`;
      if (line.node) {
        this.characters += shown.length - line.node.textContent.length;
        if (line.node.textContent !== shown) line.node.textContent = shown;
      } else {
        line.node = document.createElement('span');
        line.node.textContent = shown;
        if (line.stream === 2) line.node.className = 'errors';
        pre.append(line.node);
        this.lines += 1;
        this.characters += shown.length;
      }
    }
    this.fresh = [];
    while ((this.lines > MOST_LINES || this.characters > MOST_CHARACTERS) && pre.firstChild) {
      const size = pre.firstChild.textContent.length;
      this.characters -= size;
      this.left += size;
      this.lines -= 1;
      pre.firstChild.remove();
    }
    const notes = [];
    if (this.watch?.error) notes.push(this.watch.error);
    if (this.binary) notes.push('binary: bytes that are no text show as �');
    const missing = this.lost + this.left;
    if (missing) notes.push(`${format.bytes(missing)} before this ${missing === 1 ? 'is' : 'are'} left out`);
    if (this.ended) notes.push(this.any ? 'it has ended' : 'it ended without a word');
    else if (!this.any && !this.watch?.waiting) notes.push('nothing yet');
    text(this.note, notes.join(' · '));
    if (this.following) {
      this.moving = true;
      pre.scrollTop = pre.scrollHeight;
      requestAnimationFrame(() => { this.moving = false; });
    }
  }

  /** Saves what is on the screen. */
  keep(title) {
    const link = h('a', { href: URL.createObjectURL(new Blob([this.pre.textContent], { type: 'text/plain' })), download: `${title.toLowerCase().replace(/[^a-z0-9.]+/g, '-')}.txt` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  stop() {
    this.watch.stop();
  }
}

/** A line in which a carriage return begins again, as progress does. */
function turned(line) {
  const body = line.endsWith('\r') ? line.slice(0, -1) : line;
  const at = body.lastIndexOf('\r');
  return at < 0 ? line : line.slice(at + 1);
}
