// Channels: what passes through each, what waits, and what keeps it waiting.

import { h, text, attribute } from './dom.js';
import * as format from './format.js';
import { transport } from './isa.js';
import { Table, meter } from './table.js';

/** An end: its program, its domain, its node. */
function end(side) {
  return (td, row) => {
    let parts = td.firstChild;
    if (!(parts instanceof HTMLElement)) {
      parts = h('span', null, h('b', { class: 'data' }), ' ', h('a', { class: 'data' }), h('span', { class: 'faint data' }));
      td.append(parts);
    }
    const [program, , link, node] = parts.childNodes;
    const id = row[side];
    text(program, row[`${side}_program`] ?? (id ? '' : 'nobody yet'));
    link.hidden = !id;
    text(link, id ?? '');
    attribute(link, 'href', id ? `#/domain/${id}` : null);
    text(node, row[`${side}_node`] ? ` on ${row[`${side}_node`]}` : '');
  };
}

const ways = (value) => (row) => {
  const [forth, back] = [value(row.forth ?? {}), value(row.back ?? {})];
  return `${forth} / ${back}`;
};
/** Messages on their way; estimated while something passes, for the two ends are not looked at at the same moment. */
const waiting = (flow) => {
  if (flow.depth === null || flow.depth === undefined) return '–';
  return flow.depth_exact ? format.about(flow.depth) : `≈ ${format.about(flow.depth)}`;
};
const pair = (row, name) => (row.forth?.[name] ?? 0) + (row.back?.[name] ?? 0);

export const CHANNEL_COLUMNS = [
  { key: 'id', title: 'No.', sort: 'id', cell: (row) => row.key },
  { key: 'a', title: 'Connected', kind: 'long', draw: end('a') },
  { key: 'b', title: 'Accepted', kind: 'long', draw: end('b') },
  { key: 'transport', title: 'By', minor: true, cell: (row) => (row.via?.length ? `${transport(row.transport)} by ${row.via.join(', ')}` : transport(row.transport)) },
  { key: 'rate', title: 'Messages', sort: 'rate', number: true, cell: ways((flow) => format.perSecond(flow.per_s)) },
  { key: 'bytes', title: 'Bytes', sort: 'bytes', number: true, minor: true, cell: ways((flow) => format.bytesPerSecond(flow.bytes_per_s)) },
  { key: 'depth', title: 'Waiting', sort: 'depth', number: true, cell: ways(waiting) },
  { key: 'credit', title: 'Credit', number: true, minor: true, draw: (td, row) => {
    const slots = pair(row, 'slots');
    meter(td, slots ? pair(row, 'credit') / slots : 0, slots ? `${format.about(row.forth?.credit)} / ${format.about(row.back?.credit)}` : '–', 'wide');
  } },
  { key: 'stalls', title: 'Stalls', number: true, minor: true, cell: ways((flow) => format.about(flow.stalls)) },
  { key: 'sleeps', title: 'Sleeps', number: true, minor: true, cell: ways((flow) => format.about(flow.sleeps)) },
];

/** The view. */
export function channels(root, { live, query, readdress }) {
  const node = query.get('node');
  const only = node ? h('a', { class: 'chip', href: '#/channels', title: 'Show those of all nodes' }, `of ${node} ✕`) : null;
  const table = new Table(live, {
    title: 'Channels', base: { view: 'channels', ...(node ? { node } : {}) }, columns: CHANNEL_COLUMNS, query, readdress, hash: 'channels', filter: 'Filter by program, domain or node', extra: only, empty: 'No channel is open.',
  });
  const legend = h('p', { class: 'faint legend' }, 'Of two numbers the first is from the end that connected to the one that accepted, the second the way back. Waiting is what was sent and not received yet: ≈ stands before what the sender knew of it last, – where that cannot be told. Credit is the room that a sender knew of last; a stall is a message that found none, a sleep a receiver that had nothing to do.');
  root.append(table.node, legend);
  return { key: (event) => table.key(event), stop: () => table.stop() };
}
