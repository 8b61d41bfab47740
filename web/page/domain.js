// A domain: what it does, what it printed, and what can be done with it.

import { h, text, attribute, icon } from './dom.js';
import * as format from './format.js';
import { isa } from './isa.js';
import { ask } from './live.js';
import { Bound } from './bound.js';
import { Chart, Charts } from './chart.js';
import { Output } from './output.js';
import { Process } from './process.js';
import { Facts } from './facts.js';
import { Table } from './table.js';
import { state } from './domains.js';
import { CHANNEL_COLUMNS } from './channels.js';
import { REGION_COLUMNS } from './memory.js';
import { confirm, deed } from './dialog.js';

/** Of more children the output is on their own pages. */
const MAX_OUTPUTS = 8;

class DomainView {
  constructor(root, { live, id, retitle }) {
    Object.assign(this, { live, id, retitle });
    this.buttons = new Map();
    const ended = () => (this.row?.ended_ms !== null && this.row?.ended_ms !== undefined ? 'it has ended' : null);
    const not = () => ended() ?? (this.row?.steerable === false ? 'it attached by itself, so it is not the machine’s to steer' : null);
    const bar = h('div', { class: 'deeds', role: 'toolbar', 'aria-label': 'What can be done' },
      this.button('pause', 'pause', 'Pause', 'Pause (p)', () => this.pause(), not),
      this.button('stop', 'stop', 'Stop', 'Ask it to end, and end it if it does not (x)', () => this.halt(), not),
      this.button('kill', 'kill', 'Kill', 'End it at once (K)', () => this.kill(), not, 'danger'),
      this.button('repeat', 'repeat', 'Run again', 'Start the same again (r)', () => this.repeat(), () => (this.row?.repeatable ? null : 'the monitor did not start it, or does not know its image any more')),
      this.button('move', 'move', 'Move', 'End it and start it on another node (v)', () => this.move(), () => not() ?? (this.row?.restartable ? (this.row?.repeatable ? null : 'the monitor did not start it') : 'its image does not say that it can be started again')));
    this.badge = h('span', { class: 'state-badge' });
    this.title = h('p', { class: 'program' });
    this.facts = new Facts(['Job', 'Node', 'Process', 'Started', 'Ran for', 'Result', 'Load', 'Memory', 'Threads', 'Channels', 'Output', 'Started by', 'Children']);
    this.note = h('p', { class: 'notice' }, 'Waiting for the domain…');
    const part = `domain:${id}`;
    this.charts = new Charts([
      new Chart(live, { part, measure: 'load', title: 'Load', unit: format.load, least: 100 }),
      new Chart(live, { part, measure: 'memory', title: 'Memory', unit: format.bytes, binary: true }),
    ]);
    this.output = new Output(live, { view: 'output', domain: id }, 'Output');
    this.childOutputs = h('div', { class: 'page' });
    this.children = new Map();
    this.channels = new Table(live, { title: 'Channels of the domain', headline: 'Channels', base: { view: 'channels', domain: id }, columns: CHANNEL_COLUMNS, empty: 'It has no channel open.', page: 50 });
    this.regions = new Table(live, { title: 'Memory of the domain', headline: 'Memory', base: { view: 'regions', domain: id }, columns: REGION_COLUMNS, href: (row) => `#/memory?region=${encodeURIComponent(row.key)}`, empty: 'It holds no regions.', page: 50 });
    this.body = h('div', { class: 'page', hidden: true },
      h('section', { class: 'panel head' }, h('header', null, this.badge, this.title, bar), this.facts.node),
      this.output.node, this.childOutputs, this.charts.node,
      this.channels.node, this.regions.node);
    root.append(this.note, this.body);
    this.watch = live.watch({ view: 'domain', domain: id }, (watch) => this.show(watch));
    this.jobs = live.watch({ view: 'names', pattern: `job/${id}*`, scope: 'machine', offset: 0, limit: 2 }, () => this.show(this.watch));
    this.processes = live.watch({ view: 'names', pattern: `process/${id}`, scope: 'machine', offset: 0, limit: 1 }, (watch) => this.showProcess(watch));
    this.tick = () => this.ages();
    live.listeners.add(this.tick);
  }

  button(name, drawing, title, about, work, reason, kind = null) {
    const button = h('button', { type: 'button', class: kind, onclick: work }, icon(drawing), h('span', null, title));
    this.buttons.set(name, { button, bound: new Bound(this.live, button, about, reason) });
    return button;
  }

  show(watch) {
    const row = watch?.first() ?? null;
    this.row = row;
    this.note.hidden = Boolean(row) && !watch.error;
    this.body.hidden = !row;
    if (watch?.error) text(this.note, `${watch.error}. What is shown is how it was last.`);
    if (!row) {
      if (watch) text(this.note, watch.error ?? (watch.waiting ? 'Waiting for the domain…' : `There is no domain ${this.id}, and none is remembered.`));
      return;
    }
    this.retitle(`${row.program} ${this.id}`);
    const word = state(row);
    attribute(this.badge, 'data-state', word);
    text(this.badge, word === 'failed' || word === 'ended' ? row.exit ?? word : word);
    this.title.replaceChildren(h('b', { class: 'data' }, row.program), h('span', { class: 'data faint' }, row.arguments ? ` ${row.arguments}` : ''));
    const { facts } = this;
    const link = (id) => h('a', { href: `#/domain/${id}` }, id);
    facts.put('Node', [h('a', { href: `#/node/${encodeURIComponent(row.node)}` }, row.node), `, ${isa(row.isa).name}`]);
    facts.put('Process', row.pid ? String(row.pid) : null);
    facts.put('Result', row.exit);
    const over = word === 'ended' || word === 'failed';
    facts.put('Load', over ? null : format.load(row.load));
    facts.put('Memory', over ? null : format.bytes(row.memory_bytes));
    facts.put('Threads', over ? null : format.count(row.threads));
    facts.put('Channels', format.count(row.channels));
    facts.put('Output', row.output_bytes === undefined ? null : format.bytes(row.output_bytes));
    facts.put('Started by', row.parent ? link(row.parent) : null);
    const children = row.children ?? [];
    this.showOutputs(children);
    facts.put('Children', children.length ? children.slice(0, 40).flatMap((child, index) => [index ? ', ' : '', link(child)]).concat(children.length > 40 ? [` and ${children.length - 40} more`] : []) : null);
    facts.put('Job', this.jobs?.order.some((name) => name === `job/${this.id}` || name === `job/${this.id}/figure`) ? h('a', { href: `#/job/${this.id}` }, 'how far it is, and what it finds') : null);
    const all = children.length > 0;
    text(this.buttons.get('stop').button.lastChild, all ? 'Stop all' : 'Stop');
    this.buttons.get('stop').bound.title = all ? 'Ask it and what it started to end, and end them if they do not (x)' : 'Ask it to end, and end it if it does not (x)';
    const { button } = this.buttons.get('pause');
    if (button.dataset.paused !== String(row.paused)) {
      button.dataset.paused = String(row.paused);
      button.replaceChildren(icon(row.paused ? 'play' : 'pause'), h('span', null, row.paused ? 'Resume' : 'Pause'));
      this.buttons.get('pause').bound.title = row.paused ? 'Let it go on (p)' : 'Pause (p)';
    }
    for (const { bound } of this.buttons.values()) bound.show();
    this.ages();
  }

  /** Of the program of a job whose threads are on several nodes: the job as one process. */
  showProcess(watch) {
    if (this.process || !watch.order.length) return;
    this.process = new Process(this.live, this.id);
    this.output.node.after(this.process.node);
  }

  /** What a job's domains write is each one's own. */
  showOutputs(children) {
    for (const child of children) {
      if (this.children.has(child) || this.children.size >= MAX_OUTPUTS) continue;
      const output = new Output(this.live, { view: 'output', domain: child }, `Output of ${child}`);
      this.children.set(child, output);
      this.childOutputs.append(output.node);
    }
  }

  ages() {
    const { row, live } = this;
    if (!row) return;
    const over = row.ended_ms !== null && row.ended_ms !== undefined;
    this.facts.put('Started', `${format.ago(live.age(row.since_ms))} (${format.clock(live.wall(row.since_ms))})`);
    this.facts.put('Ran for', over ? `${format.duration(row.ended_ms - row.since_ms)}, ended ${format.ago(live.age(row.ended_ms))}` : null);
  }

  named() {
    return `${this.row?.program ?? 'domain'} ${this.id}`;
  }

  pause() {
    const paused = this.row?.paused;
    return deed(() => ask(paused ? '/api/resume' : '/api/pause', { domain: this.id }), paused ? `${this.id} goes on` : `${this.id} is paused`);
  }

  async halt() {
    const grace = h('input', { id: 'grace', type: 'number', min: 0, max: 600, step: 'any', value: 5, inputmode: 'decimal' });
    const field = h('div', { class: 'fields' }, h('label', { for: 'grace' }, 'Seconds until it is killed'), grace);
    const children = this.row?.children?.length ?? 0;
    const about = children ? `It is asked to end (SIGTERM), and killed if it has not after a while. The ${format.several(children, 'domain')} that it started end with it.` : 'It is asked to end (SIGTERM), and killed if it has not after a while.';
    if (!await confirm(`Stop ${this.named()}?`, about, children ? 'Stop all' : 'Stop it', { field })) return;
    await deed(() => ask('/api/stop', { domain: this.id, grace_ms: Math.round(Number(grace.value) * 1000) }), `${this.id} is asked to end`);
  }

  async kill() {
    if (!await confirm(`Kill ${this.named()}?`, 'It ends at once and can save nothing. Its channels close, and its memory goes back.', 'Kill it')) return;
    await deed(() => ask('/api/kill', { domain: this.id }), `${this.id} was killed`);
  }

  async repeat() {
    const done = await deed(() => ask('/api/repeat', { domain: this.id, node: null }), (answer) => `Started as ${answer.domain}`);
    if (done?.domain) location.hash = `#/domain/${done.domain}`;
  }

  async move() {
    const nodes = await new Promise((resolve) => {
      const watch = this.live.watch({ view: 'nodes' }, () => {
        const found = watch.list().filter((row) => row.phase === 'up' && row.name !== this.row?.node);
        watch.stop();
        resolve(found);
      });
    });
    if (!nodes.length) {
      await confirm('Nowhere to move', 'There is no other node that is up.', 'I see', { danger: false });
      return;
    }
    const select = h('select', { id: 'to' }, nodes.map((row) => h('option', { value: row.name }, `${row.name} (${isa(row.isa).name})`)));
    const field = h('div', { class: 'fields' }, h('label', { for: 'to' }, 'To'), select);
    if (!await confirm(`Move ${this.named()}?`, 'It is ended where it is and started anew on the other node: what it has in memory is lost. Its image says that it can be started again.', 'Move it', { field })) return;
    const done = await deed(() => ask('/api/move', { domain: this.id, node: select.value, grace_ms: 5000 }), (answer) => `Started on ${select.value} as ${answer.domain}`);
    if (done?.domain) location.hash = `#/domain/${done.domain}`;
  }

  key(event) {
    const name = { p: 'pause', x: 'stop', K: 'kill', r: 'repeat', v: 'move' }[event.key];
    if (name) {
      this.buttons.get(name).button.click();
      return true;
    }
    return this.channels.key(event);
  }

  stop() {
    this.live.listeners.delete(this.tick);
    for (const part of [...this.children.values(), this.watch, this.jobs, this.processes, this.charts, this.output, this.channels, this.regions]) part.stop();
    this.process?.stop();
  }
}

/** The view. */
export function domain(root, context) {
  return new DomainView(root, context);
}
