// What `tombolo bench` measured, drawn: round trips, rates, bandwidths, links, and what was promised of them.

import { h, text, fill } from './dom.js';
import * as format from './format.js';
import { ask } from './live.js';
import { dots, figure, lines } from './plots.js';

const typical = (row) => row.latency_ns?.p50 ?? row.rate_per_s?.p50 ?? row.value ?? null;
const metric = (row) => (typeof row.metric === 'string' ? [row.metric, {}] : Object.entries(row.metric ?? {})[0] ?? ['', {}]);
const OWN = /^Tombolo/;
const BARE = /^(bare |memcpy|eventfd)/;
const tone = (name) => (OWN.test(name) ? 0 : BARE.test(name) ? 8 : 1);
const ratio = (value) => (Number.isFinite(value) ? `${value.toFixed(2)}×` : '–');

/** What a metric is called, how it is read, and whether less of it is better. */
const METRICS = {
  round_trip: ['Round trip', format.nanoseconds], call: ['Call', format.nanoseconds], wake_up: ['Round trip of two that sleep', format.nanoseconds],
  rate: ['Messages in a second', format.perSecond], idle: ['Processor used while waiting', (value) => format.share(value)], memory: ['Memory of a channel', format.bytes],
  open: ['Opening a channel', format.nanoseconds], system_calls: ['System calls for a round trip', (value) => (value ?? 0).toFixed(2)],
};

/** Of two rows of a peer the nearer one. */
function nearest(rows) {
  const best = new Map();
  const rank = { near: 0, far: 1, any: 2 };
  for (const row of rows) {
    const known = best.get(row.peer);
    if (!known || (rank[row.distance] ?? 3) < (rank[known.distance] ?? 3)) best.set(row.peer, row);
  }
  return [...best.values()];
}

function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return groups;
}

/** Figures that are a number for each peer. */
function peers(rows) {
  const found = [];
  for (const [name, group] of grouped(rows.filter((row) => !row.route && METRICS[metric(row)[0]]), (row) => JSON.stringify(row.metric))) {
    const [kind, of] = metric(group[0]);
    const [title, unit] = METRICS[kind];
    const sorted = nearest(group).filter((row) => typical(row) !== null).sort((a, b) => typical(a) - typical(b));
    if (!sorted.length || name === '') continue;
    const more = kind === 'rate';
    if (more) sorted.reverse();
    const times = sorted.every((row) => row.latency_ns);
    const drawn = sorted.map((row) => ({ name: row.distance === 'far' ? `${row.peer} (far)` : row.peer, values: times ? [row.latency_ns.p50, row.latency_ns.p99, row.latency_ns.p999] : [typical(row)], tone: tone(row.peer) }));
    const size = of.bytes === undefined ? '' : `, ${format.bytes(of.bytes)}`;
    const batch = of.batch > 1 ? `, ${of.batch} sent together` : '';
    const about = times ? 'Dot: median; bar: 99 %; end: 99.9 %. Less is better.' : more ? 'More is better.' : 'Less is better.';
    const head = times ? ['', 'median', '99 %', '99.9 %', 'over bare lines'] : ['', 'typical'];
    const cells = sorted.map((row) => (times ? [row.peer, unit(row.latency_ns.p50), unit(row.latency_ns.p99), unit(row.latency_ns.p999), row.probe_ratio ? ratio(row.probe_ratio) : ''] : [row.peer, unit(typical(row))]));
    const linear = !times && Math.min(...sorted.map(typical)) <= 0;
    found.push({ rank: Object.keys(METRICS).indexOf(kind) * 1e9 + (of.bytes ?? 0), node: figure(`${title}${size}${batch}`, about, dots(drawn, { unit, logarithmic: !linear && !more, bars: !times }), head, cells) });
  }
  return found.sort((a, b) => a.rank - b.rank).map(({ node }) => node);
}

const gigabytes = (value) => format.bytesPerSecond(value * 1e9);

/** Figures over a length: between programs, by one program, and from node to node. */
function lengths(rows) {
  const found = [];
  const curve = (group, point, name) => [...grouped(group, name)].map(([peer, of]) => ({ name: peer, points: of.map(point).filter(([, value]) => Number.isFinite(value) && value > 0) }));
  const draw = (title, about, group, rate, name = (row) => row.peer) => {
    if (!group.length) return;
    const bytes = (row) => metric(row)[1].bytes;
    const point = rate ? (row) => [bytes(row), metric(row)[0] === 'copy' ? bytes(row) / typical(row) : typical(row) / 1e9] : (row) => [bytes(row), typical(row)];
    const series = curve(group, point, name);
    const sayY = rate ? gigabytes : format.nanoseconds;
    // What differs by much shows only on a logarithmic axis.
    const values = series.flatMap((each) => each.points.map(([, value]) => value));
    const wide = Math.max(...values) > 30 * Math.min(...values);
    const drawing = lines(series, { x: format.bytes, y: sayY, logarithmic: !rate || wide });
    if (!drawing) return;
    const all = [...new Set(group.map(bytes))].sort((a, b) => a - b);
    found.push(figure(title, about, drawing, ['', ...all.map(format.bytes)], series.map((each) => [each.name, ...all.map((length) => {
      const hit = each.points.find(([at]) => at === length);
      return hit ? sayY(hit[1]) : '–';
    })])));
  };
  const of = (kind, here) => rows.filter((row) => metric(row)[0] === kind && Boolean(row.route) === !here);
  draw('Bulk data, filled by one program and read by another', 'Every byte written and read. More is better.', unique(of('bandwidth', true)), true);
  draw('The right to a buffer, there and back', 'Nothing of the buffer is touched. Less is better.', unique(of('transfer', true)), false);
  draw('Copies by one program', 'More is better.', unique(of('copy', true)), true);
  const routes = grouped(rows.filter((row) => row.route && row.route.from !== row.route.to), (row) => `From ${row.route.from} to ${row.route.to}`);
  for (const [title, group] of routes) {
    draw(`${title}: bandwidth`, 'More is better.', group.filter((row) => ['bandwidth', 'copy'].includes(metric(row)[0])), true, (row) => row.route.by);
    draw(`${title}: time of one`, 'Less is better.', group.filter((row) => ['transfer', 'delivery', 'copy'].includes(metric(row)[0])), false, (row) => (metric(row)[0] === 'delivery' ? `${row.route.by}, one at a time` : row.route.by));
  }
  return found;
}

function unique(rows) {
  return [...grouped(rows, (row) => JSON.stringify(row.metric)).values()].flatMap(nearest);
}

function links(list) {
  const known = (list ?? []).filter((link) => link.rtt_ns);
  if (!known.length) return [];
  const rows = known.flatMap((link) => [
    ...(link.limit_rtt_ns ? [{ name: `${link.link}: bare lines`, values: [link.limit_rtt_ns.p50, link.limit_rtt_ns.p99, link.limit_rtt_ns.p999], tone: 8 }] : []),
    { name: `${link.link}: a message`, values: [link.rtt_ns.p50, link.rtt_ns.p99, link.rtt_ns.p999], tone: 0 },
  ]);
  return [figure('Links of a machine', 'A message there and back, and two bare cache lines in the same memory, which nothing can beat. Dot: median; bar: 99 %; end: 99.9 %.',
    dots(rows, { unit: format.nanoseconds }), ['', 'nodes', 'by', 'median', 'over the limit', 'woken', 'messages in a second'],
    known.map((link) => [link.link, (link.isa ?? []).join(' – '), link.transport, format.nanoseconds(link.rtt_ns.p50), link.rtt_ratio ? ratio(link.rtt_ratio) : '–', format.nanoseconds(link.wake_rtt_ns?.p50 ?? null), format.perSecond(link.rate_per_s?.p50 ?? null)]))];
}

function distribution(found) {
  const rows = (found?.rows ?? []).filter((row) => row.times?.Ok);
  if (!rows.length) return [];
  const drawn = rows.map((row) => ({ name: `${row.treatment}${row.loaded ? ', under load' : ''}`, values: [row.times.Ok.p50, row.times.Ok.p99, row.times.Ok.p9999], tone: row.loaded ? 1 : 0 }));
  return [figure('How answer times are spread', 'Dot: median; bar: 99 %; end: 99.99 %. With and without processors and a priority of their own.', dots(drawn, { unit: format.nanoseconds }), ['', 'median', '99 %', '99.99 %', 'longest'],
    rows.map((row) => [`${row.treatment}${row.loaded ? ', under load' : ''}`, ...[row.times.Ok.p50, row.times.Ok.p99, row.times.Ok.p9999, row.times.Ok.max].map(format.nanoseconds)]))];
}

function arrays(found) {
  const rows = Object.entries(found?.latency_ns ?? {}).flatMap(([peer, of]) => (typeof of === 'string' ? [] : Object.entries(of).map(([how, times]) => ({ name: `${peer}, ${how}`, times, tone: tone(peer) }))));
  if (!rows.length) return [];
  rows.sort((a, b) => a.times.p50 - b.times.p50);
  return [figure(`An array of ${format.bytes(found.about?.bytes ?? null)} to another program in Python`, 'Dot: median; bar: 99 %. Less is better.', dots(rows.map((row) => ({ name: row.name, values: [row.times.p50, row.times.p99], tone: row.tone })), { unit: format.nanoseconds }), ['', 'median', '99 %'],
    rows.map((row) => [row.name, format.nanoseconds(row.times.p50), format.nanoseconds(row.times.p99)]))];
}

const micro = (value) => format.nanoseconds((value ?? NaN) * 1000);

/** OpenMP's run-times beside each other: sections, and rows of each. */
function openmp(found) {
  const rows = (found?.rows ?? []).filter((row) => Number.isFinite(row.p50_us));
  const out = [];
  for (const [section, group] of grouped(rows, (row) => row.section)) {
    const stacks = [...new Set(group.map((row) => row.stack))];
    const names = [...new Set(group.map((row) => `${row.metric}${row.threads ? `, ${row.threads} workers` : ''}`))];
    const drawn = group.slice(0, 60).map((row) => ({ name: `${row.metric}: ${row.stack}`, values: [row.p50_us * 1000, row.p99_us * 1000], tone: OWN.test(row.stack) ? 0 : 1 + (stacks.indexOf(row.stack) % 7) }));
    out.push(figure(`OpenMP: ${String(section).replaceAll('_', ' ')}`, 'Dot: median; bar: 99 %. Less is better.', dots(drawn, { unit: format.nanoseconds }), ['', ...stacks],
      names.map((name) => [name, ...stacks.map((stack) => {
        const hit = group.find((row) => row.stack === stack && `${row.metric}${row.threads ? `, ${row.threads} workers` : ''}` === name);
        return hit ? micro(hit.p50_us) : '–';
      })])));
  }
  return [...promises(found), ...out];
}

const UNITS = { ns: format.nanoseconds, 'GB/s': gigabytes, '1/s': format.perSecond };

/** MPI's stacks beside each other: over lengths, by place. */
function mpi(found) {
  const out = [];
  const place = (row) => (row.place.from === row.place.to ? `within ${row.place.from}` : `${row.place.from} to ${row.place.to}`);
  for (const [title, group] of grouped(found.rows ?? [], (row) => `${row.metric.replaceAll('_', ' ')}, ${place(row)}`)) {
    const unit = UNITS[group[0].unit] ?? format.about;
    const all = [...new Set(group.map((row) => row.bytes))].sort((a, b) => a - b);
    const series = [...grouped(group, (row) => row.stack)].map(([name, of]) => ({ name, points: of.map((row) => [row.bytes, row.p50]).filter(([at, value]) => at > 0 && value > 0) }));
    const drawing = all.length > 1 ? lines(series, { x: format.bytes, y: unit, logarithmic: true })
      : dots(group.map((row) => ({ name: row.stack, values: group[0].unit === 'ns' ? [row.p50, row.p99] : [row.p50], tone: tone(row.stack) })), { unit, bars: group[0].unit !== 'ns', logarithmic: group[0].unit === 'ns' });
    out.push(figure(`MPI: ${title}`, group[0].unit === 'ns' ? 'Median. Less is better.' : 'Median. More is better.', drawing, ['', ...all.map(format.bytes)],
      [...grouped(group, (row) => row.stack)].map(([name, of]) => [name, ...all.map((length) => {
        const hit = of.find((row) => row.bytes === length);
        return hit ? unit(hit.p50) : '–';
      })])));
  }
  return [...promises(found), ...out];
}

/** What is promised, and whether it holds. */
function promises(found) {
  const rows = found?.targets ?? [];
  if (!rows.length) return [];
  const limit = (row) => row.limit ?? row.at_most;
  return [figure('What is promised', null, null, ['promise', 'found', 'is to be', 'verdict'], rows.map((row) => [[row.section, row.metric, row.what].filter(Boolean).join(': ').replaceAll('_', ' '), ratio(row.ratio), `${row.bound ?? 'at most'} ${ratio(limit(row))}`, row.met ? 'met' : 'NOT met']))];
}

function waiting(rows) {
  const out = [];
  for (const [title, unit, value] of [['Being woken', format.nanoseconds, (row) => row.wake_ns], ['A round trip between two that are awake', format.nanoseconds, (row) => row.echo_ns]]) {
    const drawn = rows.filter((row) => value(row)).map((row) => ({ name: `${row.design}, ${row.idle} idle beside it`, values: [value(row).p50, value(row).p99], tone: OWN.test(row.design) ? 0 : 1 }));
    if (drawn.length) out.push(figure(title, 'Dot: median; bar: 99 %. Less is better.', dots(drawn, { unit }), ['', 'median', '99 %'], drawn.map((row) => [row.name, ...row.values.map(unit)])));
  }
  return out;
}

/** The drawings of a file, whatever kind it is. */
export function draw(found) {
  if (Array.isArray(found?.rows) && found.rows.some((row) => row.place)) return mpi(found);
  if (Array.isArray(found?.rows) && found.rows.some((row) => row.stack)) return openmp(found);
  if (Array.isArray(found?.rows) && found.rows.some((row) => row.wake_ns)) return waiting(found.rows);
  if (Array.isArray(found?.rows) && found.rows.some((row) => row.treatment)) return distribution(found);
  const rows = found?.rows ?? [];
  return [...peers(rows), ...links(found?.links), ...lengths(rows), ...distribution(found?.distribution), ...arrays(found?.arrays), ...openmp(found?.openmp)];
}

/** The view. */
export function results(root, { query, readdress }) {
  let stopped = false;
  const choice = h('select', { 'aria-label': 'Results' });
  const about = h('p', { class: 'faint data' });
  const note = h('p', { class: 'notice' }, 'Loading…');
  const bar = h('div', { class: 'controls', hidden: true }, choice, about);
  const drawings = h('div', { class: 'drawings' });
  root.append(bar, note, drawings);
  const show = async (file) => {
    note.hidden = false;
    text(note, 'Loading…');
    fill(drawings);
    try {
      const found = await ask(`/api/results/${encodeURIComponent(file)}`);
      if (stopped || choice.value !== file) return;
      const taken = found.taken_at ? `taken ${new Date(found.taken_at * 1000).toISOString().slice(0, 10)}` : null;
      text(about, [found.label, found.host?.cpu_model, found.host?.cores ? format.several(found.host.cores, 'processor') : null, found.host?.virtual_machine ? 'a virtual machine' : null, found.version ? `Tombolo ${found.version}` : null, taken].filter(Boolean).join(' · '));
      const parts = draw(found);
      note.hidden = parts.length > 0;
      text(note, 'There is nothing in this file that this page can draw.');
      fill(drawings, parts);
    } catch (error) {
      text(note, `${file}: ${error.message}`);
    }
  };
  choice.addEventListener('change', () => {
    readdress(`#/results?file=${encodeURIComponent(choice.value)}`);
    show(choice.value);
  });
  ask('/api/results').then(({ results: found }) => {
    if (stopped) return;
    if (!found.length) {
      text(note, 'There are no results. Start tombolo web with --results FOLDER, where tombolo bench --json FILE has written some.');
      return;
    }
    bar.hidden = false;
    fill(choice, found.map((each) => h('option', { value: each.file }, each.label && each.label !== each.file ? `${each.label} (${each.file})` : each.file)));
    const wanted = query.get('file');
    if (found.some((each) => each.file === wanted)) choice.value = wanted;
    show(choice.value);
  }, (error) => text(note, error.message));
  return { stop() { stopped = true; } };
}
