// Regions of memory, and who holds rights to them.

import { h, text, attribute } from './dom.js';
import * as format from './format.js';
import { Table } from './table.js';

export const REGION_COLUMNS = [
  { key: 'id', title: 'Region', cell: (row) => row.key },
  { key: 'node', title: 'Node', kind: 'data', cell: (row) => row.node },
  { key: 'backing', title: 'Lies in', kind: 'data', cell: (row) => row.backing },
  { key: 'bytes', title: 'Size', number: true, cell: (row) => format.bytes(row.bytes) },
  { key: 'maker', title: 'Made by', kind: 'long', draw: (td, row) => {
    let parts = td.firstChild;
    if (!(parts instanceof HTMLElement)) {
      parts = h('span', null, h('b', { class: 'data' }), ' ', h('a', { class: 'data' }));
      td.append(parts);
    }
    text(parts.firstChild, row.maker_program ?? '');
    text(parts.lastChild, row.maker ?? '');
    attribute(parts.lastChild, 'href', row.maker ? `#/domain/${row.maker}` : null);
  } },
  { key: 'seal', title: 'Seal', minor: true, kind: 'data', cell: (row) => row.seal ?? '' },
  { key: 'capabilities', title: 'Capabilities', number: true, cell: (row) => format.count(row.capabilities) },
  { key: 'mappings', title: 'Mappings', number: true, cell: (row) => format.count(row.mappings) },
];

const HOLDER_COLUMNS = [
  { key: 'id', title: 'Capability', cell: (row) => row.key },
  { key: 'holder', title: 'Held by', kind: 'long', draw: (td, row) => {
    let parts = td.firstChild;
    if (!(parts instanceof HTMLElement)) {
      parts = h('span', null, h('b', { class: 'data' }), ' ', h('a', { class: 'data' }));
      td.append(parts);
    }
    text(parts.firstChild, row.holder_program ?? '');
    text(parts.lastChild, row.holder ?? '');
    attribute(parts.lastChild, 'href', row.holder ? `#/domain/${row.holder}` : null);
  } },
  { key: 'rights', title: 'May', kind: 'data', cell: (row) => (Array.isArray(row.rights) ? row.rights.join(', ') : row.rights) },
  { key: 'offset', title: 'From', number: true, cell: (row) => format.bytes(row.offset_bytes) },
  { key: 'bytes', title: 'Length', number: true, cell: (row) => format.bytes(row.bytes) },
  { key: 'parent', title: 'Made from', cell: (row) => row.parent ?? '' },
];

/** The view. */
export function memory(root, { live, query, readdress }) {
  let region = query.get('region');
  let holders = null;
  const place = h('div', { class: 'below' });
  const table = new Table(live, {
    title: 'Regions', base: { view: 'regions' }, columns: REGION_COLUMNS, href: (row) => `#/memory?region=${encodeURIComponent(row.key)}`, query, readdress, hash: 'memory', filter: 'Filter by node, program or domain', empty: 'No domain has made a region.',
  });
  const look = (id) => {
    region = id;
    holders?.stop();
    holders = null;
    place.replaceChildren();
    if (!id) return;
    holders = new Table(live, { title: `Holders of region ${id}`, headline: `Who holds region ${id}`, base: { view: 'holders', region: id }, columns: HOLDER_COLUMNS, empty: 'Nobody holds a right to it.' });
    place.append(holders.node);
  };
  root.append(table.node, place);
  look(region);
  return {
    came(asked) {
      if (asked.get('region') !== region) {
        look(asked.get('region'));
        table.query = asked;
      }
      return true;
    },
    key: (event) => table.key(event),
    stop() {
      table.stop();
      holders?.stop();
    },
  };
}
