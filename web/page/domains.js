// All domains, a page at a time.

import { h, attribute, text } from './dom.js';
import * as format from './format.js';
import { isa } from './isa.js';
import { Table, meter } from './table.js';
import { visible } from './text.js';

/** What a domain is doing, in a word. */
export function state(row) {
  if (row.ended_ms !== null && row.ended_ms !== undefined) return row.failed ? 'failed' : 'ended';
  return row.paused ? 'paused' : 'runs';
}

function drawState(td, row) {
  const word = state(row);
  let badge = td.firstChild;
  if (!(badge instanceof HTMLElement)) {
    badge = h('span', { class: 'state-badge' });
    td.append(badge);
  }
  attribute(badge, 'data-state', word);
  text(badge, word === 'failed' || word === 'ended' ? row.exit ?? word : word);
}

export const DOMAIN_COLUMNS = [
  { key: 'id', title: 'Id', sort: 'id', cell: (row) => row.key },
  { key: 'program', title: 'Program', sort: 'program', kind: 'data long named', draw: (td, row) => {
    let parts = td.firstChild;
    if (!(parts instanceof HTMLElement)) {
      parts = h('span', null, h('b', { class: 'data' }), h('span', { class: 'data faint arguments' }));
      td.append(parts);
    }
    text(parts.firstChild, row.program);
    text(parts.lastChild, row.arguments ?? '');
    attribute(td, 'title', visible([row.program, row.arguments].filter(Boolean).join(' ')));
  } },
  { key: 'state', title: 'State', draw: drawState },
  { key: 'node', title: 'Node', sort: 'node', minor: true, kind: 'data', cell: (row) => row.node },
  { key: 'isa', title: 'ISA', minor: true, cell: (row) => isa(row.isa).name },
  { key: 'load', title: 'Load', sort: 'load', number: true, draw: (td, row) => meter(td, (row.load ?? 0) / 1000, format.load(row.load)) },
  { key: 'memory', title: 'Memory', sort: 'memory', number: true, minor: true, cell: (row) => format.bytes(row.memory_bytes) },
  { key: 'channels', title: 'Channels', number: true, minor: true, cell: (row) => format.count(row.channels) },
  { key: 'threads', title: 'Threads', number: true, minor: true, cell: (row) => format.count(row.threads) },
];

/** The view. */
export function domains(root, { live, query, readdress }) {
  const chosen = { node: query.get('node') ?? '', state: query.get('state') ?? 'live' };
  const nodes = h('select', { 'aria-label': 'Node' });
  const states = h('select', { 'aria-label': 'State' }, [['live', 'running'], ['ended', 'ended'], ['all', 'all']].map(([value, title]) => h('option', { value, selected: value === chosen.state }, title)));
  const table = new Table(live, {
    title: 'Domains',
    base: () => ({ view: 'domains', state: chosen.state, ...(chosen.node ? { node: chosen.node } : {}) }),
    columns: [...DOMAIN_COLUMNS, { key: 'since', title: 'Age', sort: 'since', number: true, minor: true, cell: (row) => format.duration((row.ended_ms ?? live.now() ?? 0) - row.since_ms) }],
    href: (row) => `#/domain/${row.key}`,
    query, readdress, hash: 'domains', filter: 'Filter by program, id or node', extra: [states, nodes], empty: 'No domains. Start an image with the button above.',
  });
  const again = (name, value) => {
    chosen[name] = value;
    const asked = new URLSearchParams(table.query);
    if (value && !(name === 'state' && value === 'live')) asked.set(name, value);
    else asked.delete(name);
    table.query = asked;
    table.offset = 0;
    table.again();
  };
  states.addEventListener('change', () => again('state', states.value));
  nodes.addEventListener('change', () => again('node', nodes.value));
  root.append(table.node);
  let said = '';
  const list = live.watch({ view: 'nodes' }, (watch) => {
    // Which nodes there are does not change; what they do is not shown here.
    if (!watch.waiting && !watch.error) watch.stop();
    const names = watch.list().map((row) => row.name);
    if (chosen.node && !names.includes(chosen.node)) names.unshift(chosen.node);
    if (names.join('\n') === said) return;
    said = names.join('\n');
    nodes.replaceChildren(h('option', { value: '' }, 'all nodes'), ...names.map((name) => h('option', { value: name, selected: name === chosen.node }, name)));
  });
  const ages = setInterval(() => table.show(), 5000);
  return {
    key: (event) => table.key(event),
    stop() {
      clearInterval(ages);
      list.stop();
      table.stop();
    },
  };
}
