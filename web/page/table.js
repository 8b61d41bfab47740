// A table whose rows, order and pages are the server's.

import { h, text, attribute, Keyed, fill, icon } from './dom.js';
import * as format from './format.js';

const PAGE = 100;

/**
 * `columns` are `{key, title, sort?, number?, minor?, cell(row) | draw(td, row)}`; `sort` is what the server calls it; `minor` ones go where
 * there is little room. `href(row)` is where a row leads. `extra` are more controls.
 */
export class Table {
  constructor(live, { title, base, columns, href = null, query = null, hash = null, readdress = null, filter = null, extra = null, empty, page = PAGE, onrow = null, heading = null, headline = null, sort = null }) {
    Object.assign(this, { live, base, columns, href, hash, readdress, empty, page, onrow });
    this.sort = query?.get('sort') ?? sort;
    this.descending = query ? query.get('desc') === '1' : sort !== null;
    this.offset = Math.max(0, Number(query?.get('offset')) || 0);
    this.search = query?.get('filter') ?? '';
    this.query = query;

    this.head = h('tr');
    this.body = h('tbody');
    this.table = h('table', null, h('caption', { class: 'unseen' }, title), h('thead', null, this.head), this.body);
    this.where = h('span', { class: 'where', role: 'status' });
    this.before = h('button', { type: 'button', 'aria-label': 'Page before', title: 'Page before ([)', onclick: () => this.turn(-1) }, '‹');
    this.after = h('button', { type: 'button', 'aria-label': 'Next page', title: 'Next page (])', onclick: () => this.turn(1) }, '›');
    this.note = h('p', { class: 'notice', hidden: true });
    const parts = [];
    if (filter) {
      this.field = h('input', { type: 'search', placeholder: filter, 'aria-label': filter, value: this.search, autocomplete: 'off', spellcheck: 'false' });
      this.field.addEventListener('input', () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => {
          this.search = this.field.value;
          this.offset = 0;
          this.again();
        }, 150);
      });
      this.field.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' || event.key === 'ArrowDown') this.step(0);
      });
      parts.push(h('label', { class: 'search' }, icon('search'), this.field));
    }
    this.node = h('section', { class: 'panel list' },
      heading ?? h('header', { class: 'controls' }, headline ? h('h2', null, headline) : null, parts, extra, h('div', { class: 'pages' }, this.where, this.before, this.after)),
      h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, this.table), this.note);
    // Rows stay where they are while somebody points at them, or they would be gone at the click.
    this.body.addEventListener('pointerenter', (event) => { this.held = event.pointerType === 'mouse'; });
    this.body.addEventListener('pointerleave', () => {
      this.held = false;
      this.show();
    });
    this.rows = new Keyed(this.body, (key) => this.row(key));
    this.heads(heading);
    this.watch = live.watch(this.parameters(), () => this.show());
    this.show();
  }

  parameters() {
    const own = { ...(typeof this.base === 'function' ? this.base() : this.base), offset: this.offset, limit: this.page };
    if (this.field) own.filter = this.search;
    if (this.sort) {
      own.sort = this.sort;
      own.descending = this.descending;
    }
    return own;
  }

  heads(heading = null) {
    fill(this.head, this.columns.map((column) => {
      const kind = `${column.number ? 'number ' : ''}${column.minor ? 'minor' : ''}`.trim() || null;
      // A table with a heading of its own is a glance: what it shows is fixed.
      if (!column.sort || heading) return h('th', { scope: 'col', class: kind }, column.title);
      const by = this.sort === column.sort;
      const arrow = by ? (this.descending ? ' ↓' : ' ↑') : '';
      return h('th', { scope: 'col', class: kind, 'aria-sort': by ? (this.descending ? 'descending' : 'ascending') : 'none' },
        h('button', { type: 'button', onclick: () => this.order(column) }, column.title, h('span', { 'aria-hidden': 'true' }, arrow)));
    }));
  }

  order(column) {
    if (this.sort === column.sort) {
      // The third press is the server's own order again.
      if (this.descending !== Boolean(column.number)) this.sort = null;
      this.descending = !this.descending;
    } else {
      this.sort = column.sort;
      this.descending = Boolean(column.number);
    }
    this.offset = 0;
    this.heads();
    this.again();
  }

  /** Asks anew, and keeps in the address what is asked. */
  again() {
    this.anew = true;
    this.watch.ask(this.parameters());
    if (!this.hash) return;
    const query = new URLSearchParams(this.query ?? '');
    for (const [key, value] of [['filter', this.search], ['sort', this.sort], ['desc', this.sort && this.descending ? '1' : ''], ['offset', this.offset || '']]) {
      if (value) query.set(key, value);
      else query.delete(key);
    }
    this.query = query;
    const said = query.toString();
    this.readdress(`#/${this.hash}${said ? `?${said}` : ''}`);
  }

  turn(by) {
    const next = this.offset + by * this.page;
    if (next < 0 || next >= Math.max(1, this.watch.total)) return;
    this.offset = next;
    this.again();
    this.node.querySelector('.scroll').scrollTop = 0;
  }

  row(key) {
    const cells = this.columns.map((column) => h('td', { class: `${column.number ? 'number ' : ''}${column.minor ? 'minor ' : ''}${column.kind ?? ''}`.trim() || null }));
    const node = h('tr', { tabindex: '-1' }, cells);
    const first = cells[0];
    let link = null;
    const open = () => {
      const row = this.watch.rows.get(key);
      if (row && this.onrow) this.onrow(row);
      else if (link) location.hash = link.getAttribute('href');
    };
    if (this.href) {
      link = h('a', { class: 'data' });
      first.append(link);
    }
    if (this.href || this.onrow) {
      node.classList.add('opens');
      node.addEventListener('click', (event) => {
        if (!event.target.closest('a, button') && !getSelection().toString()) open();
      });
    }
    node.addEventListener('keydown', (event) => {
      if (event.target === node && event.key === 'Enter') open();
    });
    return {
      node,
      update: () => {
        const row = this.watch.rows.get(key);
        if (!row) return;
        if (link) attribute(link, 'href', this.href(row));
        for (const [index, column] of this.columns.entries()) {
          if (column.draw) column.draw(cells[index], row);
          else text(index === 0 && link ? link : cells[index], column.cell(row));
        }
        attribute(node, 'data-state', column_state(row));
      },
    };
  }

  show() {
    const { watch } = this;
    let keys = watch.order.filter((key) => watch.rows.has(key));
    if (this.held && !this.anew) {
      const now = new Set(keys);
      const stay = this.rows.order.filter((key) => now.has(key));
      const known = new Set(stay);
      keys = [...stay, ...keys.filter((key) => !known.has(key))];
    }
    if (!watch.waiting) this.anew = false;
    this.rows.set(keys);
    const last = Math.min(this.offset + keys.length, watch.total);
    text(this.where, watch.total === 0 ? '' : watch.total <= this.page && !this.offset ? format.count(watch.total) : `${format.count(this.offset + 1)}–${format.count(last)} of ${format.count(watch.total)}`);
    const one = watch.total <= this.page && this.offset === 0;
    this.before.hidden = one;
    this.after.hidden = one;
    attribute(this.before, 'disabled', this.offset === 0);
    attribute(this.after, 'disabled', last >= watch.total);
    // Rows went while a late page was shown.
    if (!watch.waiting && !watch.error && watch.total > 0 && keys.length === 0 && this.offset > 0) {
      this.offset = Math.max(0, Math.floor((watch.total - 1) / this.page) * this.page);
      this.again();
    }
    const says = watch.error ?? (keys.length ? null : watch.waiting ? 'Loading…' : this.search ? 'Nothing matches the filter.' : this.empty);
    this.note.hidden = says === null;
    text(this.note, says);
    this.table.hidden = keys.length === 0;
    attribute(this.node, 'aria-busy', watch.waiting ? 'true' : null);
  }

  /** Moves the focus to another row. */
  step(by) {
    const rows = [...this.body.children];
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    const next = now < 0 ? (by < 0 ? rows.length - 1 : 0) : Math.max(0, Math.min(rows.length - 1, now + by));
    rows[next].focus();
    rows[next].scrollIntoView({ block: 'nearest' });
  }

  key(event) {
    switch (event.key) {
      case 'j': case 'ArrowDown': this.step(1); return true;
      case 'k': case 'ArrowUp': this.step(-1); return true;
      case ']': this.turn(1); return true;
      case '[': this.turn(-1); return true;
      default: return false;
    }
  }

  stop() {
    clearTimeout(this.typing);
    this.watch.stop();
  }
}

function column_state(row) {
  if (row.failed) return 'failed';
  if (row.ended_ms !== undefined && row.ended_ms !== null) return 'ended';
  return row.paused ? 'paused' : null;
}

/** A bar with its number: how much of one processor, or of something else. */
export function meter(td, share, label, kind = '') {
  let bar = td.firstChild;
  if (!(bar instanceof HTMLElement) || !bar.classList.contains('meter')) {
    bar = h('span', { class: `meter ${kind}` }, h('span', { class: 'fill' }), h('span', { class: 'value' }));
    td.replaceChildren(bar);
  }
  const width = `${(Math.max(0, Math.min(1, share || 0)) * 100).toFixed(1)}%`;
  if (bar.firstChild.style.width !== width) bar.firstChild.style.setProperty('width', width);
  text(bar.lastChild, label);
}

/** The column of the domain that owns what a row shows, with a link to it. */
export const OWNER = { key: 'owner', title: 'Owner', draw: (td, row) => {
  let link = td.firstChild;
  if (!link) {
    link = h('a', { class: 'data' });
    td.append(link);
  }
  link.hidden = !row.owner;
  text(link, row.owner ?? '');
  attribute(link, 'href', row.owner ? `#/domain/${row.owner}` : null);
} };
