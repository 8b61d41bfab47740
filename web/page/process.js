// A job whose threads are on several nodes, as one process: what /proc has of one, and its threads.

import { h } from './dom.js';
import * as format from './format.js';
import { isa } from './isa.js';
import { Facts } from './facts.js';
import { Table } from './table.js';

const MOST_DESCRIPTORS = 64;

const COLUMNS = [
  { title: 'Thread', number: true, cell: (row) => row.key },
  { title: 'Role', cell: (row) => (row.role === 'worker' && row.state !== 'idle' ? `worker ${row.member}` : row.role) },
  { title: 'Node', cell: (row) => row.node },
  { title: 'Made on', minor: true, cell: (row) => row.made },
  { title: 'State', cell: (row) => row.state },
  { title: 'Function', kind: 'data long', cell: (row) => row.function ?? '' },
  { title: 'Processor time', number: true, cell: (row) => format.duration(row.time_ms) },
  { title: 'Moves', number: true, cell: (row) => format.count(row.moves) },
  { title: 'Handle', kind: 'data', minor: true, cell: (row) => row.handle },
];

/** What the page of a domain shows of a job with that program. */
export class Process {
  constructor(live, id) {
    this.facts = new Facts(['getpid', 'Program', 'Current folder', 'Nodes', 'Descriptors']);
    this.threads = new Table(live, { title: 'Threads of the process', headline: 'Threads on all nodes', base: { view: 'threads', domain: id }, columns: COLUMNS, filter: 'Filter by role, node, state or function', empty: 'It has no threads of its own yet.', page: 50 });
    this.node = h('div', { class: 'page', id: 'process' },
      h('section', { class: 'panel head' }, h('header', null, h('h2', null, 'One process')), this.facts.node), this.threads.node);
    this.watch = live.watch({ view: 'process', domain: id }, (watch) => this.show(watch.first()));
  }

  show(row) {
    if (!row) return;
    const { facts } = this;
    facts.put('getpid', String(row.pid));
    facts.put('Program', row.program);
    facts.put('Current folder', row.folder);
    const nodes = row.nodes.map((node) => [node.domain ? h('a', { href: `#/domain/${node.domain}` }, node.name) : node.name, ` (${isa(node.isa).name}): ${format.several(node.threads, 'thread')}`]);
    facts.put('Nodes', nodes.flatMap((node, index) => (index ? [', ', ...node] : node)));
    const shown = row.descriptors.slice(0, MOST_DESCRIPTORS).map((each) => `${each.number} ${each.of}`);
    const more = row.descriptors.length - shown.length;
    facts.put('Descriptors', shown.join(', ') + (more > 0 ? ` and ${more} more` : ''));
  }

  stop() {
    this.watch.stop();
    this.threads.stop();
  }
}
