// Names and what is said of them.

import { h } from './dom.js';
import { OWNER, Table } from './table.js';
import { shortened } from './text.js';

const COLUMNS = [
  { key: 'name', title: 'Name', kind: 'data long', cell: (row) => row.key },
  { key: 'attributes', title: 'Attributes', kind: 'long', draw: (td, row) => {
    const pairs = Object.entries(row.attributes ?? {});
    const said = JSON.stringify(pairs);
    if (td.dataset.said === said) return;
    td.dataset.said = said;
    td.replaceChildren(...pairs.slice(0, 12).flatMap(([name, value]) => [h('span', { class: 'pair' }, h('span', { class: 'faint data' }, name), ' ', h('span', { class: 'data' }, shortened(value, 160))), ' ']));
    if (pairs.length > 12) td.append(h('span', { class: 'faint' }, `and ${pairs.length - 12} more`));
  } },
  OWNER,
  { key: 'endpoint', title: 'Connects', minor: true, cell: (row) => (row.endpoint ? 'yes' : '') },
  { key: 'version', title: 'Version', number: true, minor: true, cell: (row) => String(row.version ?? '') },
];

/** The view. */
export function names(root, { live, query, readdress }) {
  const chosen = { scope: query.get('scope') ?? 'machine' };
  // What is typed is part of a name unless it is a pattern already.
  let search = () => query.get('filter') ?? '';
  const pattern = () => {
    const typed = search();
    return typed === '' ? '*' : typed.includes('*') ? typed : `*${typed}*`;
  };
  const scopes = h('select', { 'aria-label': 'Scope' });
  const table = new Table(live, {
    title: 'Names', base: () => ({ view: 'names', scope: chosen.scope, pattern: pattern() }), columns: COLUMNS, query, readdress, hash: 'names', filter: 'Find names: part of one, or a pattern with *', extra: scopes, empty: 'No names in this scope.',
  });
  search = () => table.search;
  root.append(table.node);
  scopes.addEventListener('change', () => {
    chosen.scope = scopes.value;
    const asked = new URLSearchParams(table.query);
    asked.set('scope', scopes.value);
    table.query = asked;
    table.offset = 0;
    table.again();
  });
  let said = null;
  const list = live.watch({ view: 'nodes' }, (watch) => {
    // Which nodes there are does not change; what they do is not shown here.
    if (!watch.waiting && !watch.error) watch.stop();
    const found = ['machine', ...watch.list().map((row) => row.name)];
    if (found.join('\n') === said) return;
    said = found.join('\n');
    scopes.replaceChildren(...found.map((name) => h('option', { value: name, selected: name === chosen.scope }, name === 'machine' ? 'the machine’s names' : `of node ${name}`)));
  });
  return {
    key: (event) => table.key(event),
    stop() {
      list.stop();
      table.stop();
    },
  };
}
