// Hubs: what many programs share, and who waits there.

import { h } from './dom.js';
import * as format from './format.js';
import { OWNER, Table, meter } from './table.js';

/** Requests that wait, by priority, the highest first. */
const waiting = (all) => (all ?? []).map((one) => `${one.priority} × ${one.count}`).join(', ');

const state = (row) => {
  if (row.closed) return 'closed';
  if (row.inheritance === false) return 'open, without inheritance';
  if (row.inherited !== null && row.inherited !== undefined) return `open, the owner inherits ${row.inherited}`;
  return 'open';
};

const COLUMNS = [
  { key: 'name', title: 'Hub', kind: 'data long', cell: (row) => row.key },
  { key: 'kind', title: 'Kind', cell: (row) => row.kind },
  { key: 'node', title: 'Node', cell: (row) => row.node },
  { key: 'depth', title: 'Depth', number: true, draw: (td, row) => {
    meter(td, row.capacity ? (row.depth ?? 0) / row.capacity : 0, `${format.about(row.depth)} of ${format.about(row.capacity)}`, 'wide');
  } },
  { key: 'putters', title: 'Putting', cell: (row) => waiting(row.putters) },
  { key: 'getters', title: 'Getting', cell: (row) => waiting(row.getters) },
  OWNER,
  { key: 'state', title: 'State', minor: true, cell: state },
];

/** The view. */
export function hubs(root, { live, query, readdress }) {
  const table = new Table(live, {
    title: 'Hubs', base: { view: 'hubs' }, columns: COLUMNS, query, readdress, hash: 'hubs', filter: 'Filter by name, kind, node or owner', empty: 'No hub is served. “tombolo hubs serve” serves some.',
  });
  const legend = h('p', { class: 'faint legend' }, 'Depth counts what can be taken: the values of a fifo, the count of a semaphore, the free blocks of a pool. Requests that wait are shown as priority × count.');
  root.append(table.node, legend);
  return {
    key: (event) => table.key(event),
    stop() {
      table.stop();
    },
  };
}
