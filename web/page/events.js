// What happened, the newest first.

import { h, text, attribute } from './dom.js';
import * as format from './format.js';
import { Table } from './table.js';

/** What is bad news, and what is good. */
const BAD = new Set(['node down', 'domain not started', 'limit met']);
const GOOD = new Set(['node up', 'domain resumed']);

/** When, what, where and more. */
export function eventColumns(live) {
  const link = (name, href) => (td, row) => {
    let a = td.firstChild;
    if (!a) {
      a = h('a', { class: 'data' });
      td.append(a);
    }
    a.hidden = !row[name];
    text(a, row[name] ?? '');
    attribute(a, 'href', row[name] ? href(row[name]) : null);
  };
  return [
    { key: 'at', title: 'When', draw: (td, row) => {
      text(td, format.ago(live.age(row.at_ms)));
      attribute(td, 'title', format.clock(live.wall(row.at_ms)));
    } },
    { key: 'what', title: 'What', draw: (td, row) => {
      let badge = td.firstChild;
      if (!badge) {
        badge = h('span', { class: 'state-badge' });
        td.append(badge);
      }
      attribute(badge, 'data-state', BAD.has(row.what) ? 'failed' : GOOD.has(row.what) ? 'runs' : 'ended');
      text(badge, row.what);
    } },
    { key: 'node', title: 'Node', draw: link('node', (name) => `#/node/${encodeURIComponent(name)}`) },
    { key: 'domain', title: 'Domain', draw: link('domain', (id) => `#/domain/${id}`) },
    { key: 'text', title: 'More', kind: 'data long', cell: (row) => row.text ?? '' },
  ];
}

/** The view. */
export function events(root, { live, query, readdress }) {
  const table = new Table(live, {
    title: 'Events', base: { view: 'events' }, columns: eventColumns(live), query, readdress, hash: 'events', filter: 'Filter by kind, node, domain or text', empty: 'Nothing has happened yet.',
  });
  root.append(table.node);
  const ages = setInterval(() => table.show(), 2000);
  return {
    key: (event) => table.key(event),
    stop() {
      clearInterval(ages);
      table.stop();
    },
  };
}
