// A node: its processors, memory, power, engines, what runs on it, and its past.

import { h, text, attribute, style, fill, icon, Keyed } from './dom.js';
import * as format from './format.js';
import { isa, kind } from './isa.js';
import { ask } from './live.js';
import { Bound } from './bound.js';
import { Chart, Charts } from './chart.js';
import { Output } from './output.js';
import { Facts } from './facts.js';
import { DOMAIN_COLUMNS } from './domains.js';
import { CHANNEL_COLUMNS } from './channels.js';
import { Table } from './table.js';
import { deed, dialog } from './dialog.js';

class NodeView {
  constructor(root, { live, id }) {
    Object.assign(this, { live, id });
    this.state = h('div', { class: 'alert', hidden: true });
    this.restart = h('button', { class: 'primary', type: 'button', onclick: () => this.again() }, icon('repeat'), 'Restart');
    this.bound = new Bound(live, this.restart, `Restart ${id}`, () => (this.row?.can_restart ? null : 'it runs, or is not the monitor’s to restart'));
    this.facts = new Facts(['Instruction set', 'Kind', 'Phase', 'Booted in', 'Process', 'Speed', 'Memory', 'Window', 'Domains', 'Power', 'Watching costs']);
    this.cores = h('div', { class: 'corelist' });
    this.bars = new Keyed(this.cores, (key) => core(key));
    this.coreNote = h('p', { class: 'faint' });
    this.adjust = h('button', { type: 'button', onclick: () => this.frequency() }, 'Frequency…');
    this.adjustBound = new Bound(live, this.adjust, 'Set governor and frequencies', () => (settable(this.row) ? null : 'this hardware tells no frequencies that could be set'));
    this.power = h('ul', { class: 'plainlist' });
    this.engines = h('table');
    this.enginePanel = h('section', { class: 'panel', hidden: true }, h('header', null, h('h2', null, 'Engines')), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Engines' }, this.engines));
    this.note = h('p', { class: 'notice' }, 'Waiting for the node…');
    const part = `node:${id}`;
    this.charts = new Charts([
      new Chart(live, { part, measure: 'load', title: 'Load', unit: format.load, least: 100 }),
      new Chart(live, { part, measure: 'memory', title: 'Memory', unit: format.bytes, binary: true }),
    ]);
    this.powerChart = null;
    this.body = h('div', { class: 'page', hidden: true },
      this.state,
      h('div', { class: 'two' },
        h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Node'), h('div', { class: 'pages' }, this.restart)), this.facts.node, this.power),
        h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Processors'), h('div', { class: 'pages' }, this.adjust)), this.cores, this.coreNote)),
      this.charts.node, this.enginePanel);
    root.append(this.note, this.body);
    this.domains = new Table(live, {
      title: 'Domains of the node', headline: 'Domains', base: { view: 'domains', node: id, state: 'live' }, columns: DOMAIN_COLUMNS.filter((column) => column.key !== 'node'),
      href: (row) => `#/domain/${row.key}`, empty: 'No domain runs here.', page: 50,
    });
    this.channels = new Table(live, {
      title: 'Channels of the node', headline: 'Channels', base: { view: 'channels', node: id }, columns: CHANNEL_COLUMNS, empty: 'No channel of this node is open.', page: 50,
    });
    this.body.append(this.domains.node, this.channels.node);
    this.watch = live.watch({ view: 'node', node: id }, (watch) => this.show(watch));
  }

  show(watch) {
    const row = watch.first();
    this.row = row;
    this.note.hidden = Boolean(row) && !watch.error;
    this.body.hidden = !row;
    if (watch.error) text(this.note, watch.error);
    if (!row) {
      text(this.note, watch.error ?? (watch.waiting ? 'Waiting for the node…' : `There is no node ${this.id} on this machine.`));
      return;
    }
    this.state.hidden = row.phase === 'up';
    if (row.phase !== 'up') fill(this.state, icon('down'), h('strong', null, row.phase === 'down' ? 'This node is down' : 'This node is starting'), h('span', null, row.cause ?? ''));
    attribute(this.state, 'data-phase', row.phase);
    attribute(this.body, 'data-tone', isa(row.isa).tone);
    const { facts } = this;
    facts.put('Instruction set', isa(row.isa).name + (row.target?.endsWith('-none') ? ', no operating system' : ''));
    facts.put('Kind', kind(row.kind));
    facts.put('Phase', row.generation > 1 && row.phase === 'up' ? `${row.phase}, started ${row.generation} times` : row.phase);
    facts.put('Booted in', row.phase === 'up' && row.boot_ms ? format.duration(row.boot_ms) : null);
    facts.put('Process', row.pid ? String(row.pid) : null);
    facts.put('Speed', row.speed ? `${format.count(row.speed)} rounds of arithmetic per ms and processor` : null);
    facts.put('Memory', format.memory(row));
    facts.put('Window', row.window_bytes ? `${format.part(row.window_lent_bytes, row.window_bytes)} lent` : null);
    facts.put('Domains', format.count(row.domains));
    facts.put('Power', row.power_mw === null || row.power_mw === undefined ? null : format.power(row.power_mw));
    facts.put('Watching costs', row.period_ms ? `${(row.cost_ppm / 10_000).toFixed(2)} % of a processor, a sample each ${format.duration(row.period_ms)}` : null);
    this.showCores(row);
    fill(this.power, (row.power ?? []).map((meter) => h('li', null, h('span', { class: 'data' }, meter.name), ' ', h('b', null, format.power(meter.mw)))));
    this.showEngines(row.engines ?? []);
    if (row.power_mw !== null && row.power_mw !== undefined && !this.powerChart) {
      this.powerChart = new Chart(this.live, { part: `node:${this.id}`, measure: 'power', title: 'Power', unit: format.power });
      this.charts.charts.push(this.powerChart);
      this.charts.body.append(this.powerChart.node);
      this.charts.look(this.charts.charts[0].span);
    }
    if (row.has_console && !this.console) {
      this.console = new Output(this.live, { view: 'console', node: this.id }, 'Console');
      this.body.append(this.console.node);
    }
    this.restart.hidden = row.phase === 'up' && !row.can_restart;
    this.bound.show();
    this.adjustBound.show();
  }

  showCores(row) {
    const list = row.phase === 'up' ? row.core_list ?? [] : [];
    this.bars.set(list.map((_, index) => index));
    for (const [index, each] of list.entries()) this.bars.parts.get(index).show(each);
    const told = list.some((each) => each.khz);
    text(this.coreNote, row.phase !== 'up' ? 'Not running.' : row.shared ? `It runs on the host’s processors, and takes ${format.load(row.load)} of one.` : list.length === 0 ? 'No sample yet.' : told ? '' : 'This node’s kernel tells no frequencies.');
  }

  showEngines(engines) {
    this.enginePanel.hidden = engines.length === 0;
    const said = JSON.stringify(engines);
    if (said === this.saidEngines) return;
    this.saidEngines = said;
    fill(this.engines, h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'What copies'), h('th', { scope: 'col', class: 'number' }, 'A copy of nothing'), h('th', { scope: 'col', class: 'number' }, 'A long one'))),
      h('tbody', null, engines.map((engine) => h('tr', null, h('td', { class: 'data' }, engine.name), h('td', { class: 'number' }, format.nanoseconds(engine.latency_ns)), h('td', { class: 'number' }, format.bytesPerSecond(engine.bytes_per_s))))));
  }

  async again() {
    await deed(() => ask('/api/restart', { node: this.id }), `${this.id} starts again`);
  }

  frequency() {
    const { row } = this;
    if (!settable(row)) return;
    const cores = row.core_list ?? [];
    const lowest = Math.min(...cores.map((each) => each.floor_khz ?? each.min_khz).filter(Boolean));
    const highest = Math.max(...cores.map((each) => each.ceiling_khz ?? each.max_khz).filter(Boolean));
    const governor = h('select', { id: 'governor' }, h('option', { value: '' }, 'as it is'), row.governors.map((name) => h('option', { value: name }, name)));
    const field = (id, hint) => h('input', { id, type: 'number', min: Number.isFinite(lowest) ? lowest : 0, max: Number.isFinite(highest) ? highest : null, step: 'any', placeholder: hint, inputmode: 'numeric' });
    const least = field('least', `now ${cores[0]?.min_khz ?? 'not told'}`);
    const most = field('most', `now ${cores[0]?.max_khz ?? 'not told'}`);
    const which = h('fieldset', null, h('legend', null, 'Processors'), cores.map((_, index) => h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'core', value: index, checked: true }), String(index))));
    const number = (input) => (input.value === '' ? null : Math.round(Number(input.value)));
    const form = h('form', { class: 'fields' }, which, h('label', { for: 'governor' }, 'Governor'), governor, h('label', { for: 'least' }, 'At least (kHz)'), least, h('label', { for: 'most' }, 'At most (kHz)'), most,
      h('p', { class: 'faint' }, 'What it was before is kept by the monitor, which puts it back when the machine goes down, or when you ask for it.'),
      h('footer', null,
        h('button', { type: 'button', onclick: async () => { if (await deed(() => ask('/api/restore', { node: this.id }), 'Frequencies are as they were')) box.close(); } }, 'As they were'),
        h('button', { class: 'primary', type: 'submit' }, 'Set')));
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const chosen = [...which.querySelectorAll('input:checked')].map((input) => Number(input.value));
      const body = { node: this.id, cores: chosen, governor: governor.value || null, min_khz: number(least), max_khz: number(most) };
      if (await deed(() => ask('/api/frequency', body), 'Set')) box.close();
    });
    const box = dialog(`Frequency of ${this.id}`, form);
  }

  key(event) {
    return this.domains.key(event);
  }

  stop() {
    this.watch.stop();
    this.charts.stop();
    this.domains.stop();
    this.channels.stop();
    this.console?.stop();
  }
}

/** Whether a kernel lets frequencies be set, as far as it tells. */
function settable(row) {
  return Boolean(row?.governors?.length) || (row?.core_list ?? []).some((each) => each.ceiling_khz);
}

function core(index) {
  const bar = h('span', { class: 'fill' });
  const load = h('b');
  const speed = h('span', { class: 'faint' });
  return {
    node: h('div', { class: 'corerow' }, h('span', { class: 'faint' }, `cpu ${index}`), h('span', { class: 'rail' }, bar), load, speed),
    show(each) {
      style(bar, 'width', `${Math.min(100, each.load / 10)}%`);
      text(load, format.load(each.load));
      text(speed, each.khz ? `${format.frequency(each.khz)}${each.governor ? ` · ${each.governor}` : ''}` : '');
    },
  };
}

/** The view. */
export function node(root, context) {
  return new NodeView(root, context);
}
