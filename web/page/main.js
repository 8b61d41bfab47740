// The frame around every view: where one is, how the connection is, and the keyboard.

import { h, fill, icon, text, attribute, soon } from './dom.js';
import { Live } from './live.js';
import * as format from './format.js';
import { Bound } from './bound.js';
import { help, isOpen } from './dialog.js';
import { map } from './map.js';
import { node } from './node.js';
import { domains } from './domains.js';
import { domain } from './domain.js';
import { channels } from './channels.js';
import { hubs } from './hubs.js';
import { memory } from './memory.js';
import { names } from './names.js';
import { events } from './events.js';
import { trace } from './trace.js';
import { results } from './results.js';
import { job } from './job.js';
import { start } from './start.js';

/** Route, title, key after `g`, counter, view. */
const PLACES = [
  { name: '', title: 'Map', icon: 'map', key: 'm', view: map },
  { name: 'domains', title: 'Domains', icon: 'domains', key: 'd', view: domains, count: 'domains' },
  { name: 'channels', title: 'Channels', icon: 'channels', key: 'c', view: channels, count: 'channels' },
  { name: 'hubs', title: 'Hubs', icon: 'hubs', key: 'h', view: hubs },
  { name: 'memory', title: 'Memory', icon: 'memory', key: 'r', view: memory, count: 'regions' },
  { name: 'names', title: 'Names', icon: 'names', key: 'n', view: names },
  { name: 'events', title: 'Events', icon: 'events', key: 'e', view: events },
  { name: 'trace', title: 'Trace', icon: 'trace', key: 't', view: trace },
  { name: 'results', title: 'Results', icon: 'results', key: 'b', view: results },
];
const OTHERS = { node, domain, job };
const PARENTS = { node: '', domain: 'domains', job: 'domains' };

const live = new Live();
const app = document.getElementById('app');
const main = h('main', { id: 'main', tabindex: '-1' });
const crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Where you are' });
const machineName = h('span', { class: 'data' });
const pill = h('span', { class: 'pill', role: 'status' });
const access = h('span', { class: 'badge', title: '' });
const banner = h('div', { class: 'banner', role: 'alert', hidden: true });
const links = new Map();
let view = null;
let place = null;
/** The hash of which the view is shown. */
let shown = null;

function nav() {
  const list = h('ul');
  for (const each of PLACES) {
    const number = each.count ? h('span', { class: 'count' }) : null;
    const link = h('a', { href: `#/${each.name}`, title: `${each.title} (g ${each.key})` }, icon(each.icon), h('span', { class: 'label' }, each.title), number);
    links.set(each.name, { link, number, each });
    list.append(h('li', null, link));
  }
  return h('nav', { class: 'places', 'aria-label': 'Views' }, list);
}

function switchTheme() {
  const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('theme', next);
  } catch {
    // Storage that is switched off: it holds until the page is left.
  }
  showTheme();
  dispatchEvent(new Event('themechange'));
}

const themeButton = h('button', { class: 'quiet', type: 'button', onclick: switchTheme });
function showTheme() {
  const dark = document.documentElement.dataset.theme === 'dark';
  fill(themeButton, icon(dark ? 'sun' : 'moon'));
  attribute(themeButton, 'aria-label', dark ? 'Light theme' : 'Dark theme');
  attribute(themeButton, 'title', dark ? 'Light theme (T)' : 'Dark theme (T)');
}

const startButton = h('button', { class: 'primary', type: 'button', onclick: () => start(live) }, icon('play'), h('span', { class: 'label' }, 'Start'));
new Bound(live, startButton, 'Start an image on a node (s)');

function build() {
  showTheme();
  fill(
    app,
    h('header', { class: 'top' },
      h('a', { class: 'brand', href: '#/', title: 'Map' }, h('img', { src: '/assets/mark.svg', alt: 'Tombolo', width: 28, height: 28 }), machineName),
      crumbs,
      h('div', { class: 'tools' }, pill, access, startButton, themeButton,
        h('button', { class: 'quiet wide-only', type: 'button', title: 'Keys (?)', 'aria-label': 'Keys', onclick: () => help(PLACES) }, icon('help')))),
    nav(),
    h('div', { class: 'stage' }, banner, main),
  );
}

/** What is behind the `#`: `/domains?filter=a` is `{parts: ['domains'], query}`. */
function here() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { parts, query: new URLSearchParams(query ?? '') };
}

function go() {
  // Of two steps in quick succession each has an event, and both find the second: made twice, the view would lose the focus.
  if (location.hash === shown) return;
  shown = location.hash;
  const { parts, query } = here();
  const [name = '', id] = parts;
  const known = PLACES.find((each) => each.name === name);
  const other = id === undefined ? undefined : OTHERS[name];
  const same = place && place.name === name && place.id === id;
  if (same && view?.came?.(query)) return;
  view?.stop?.();
  view = null;
  place = { name, id };
  const title = known?.title ?? id ?? 'Not found';
  document.title = `${title} · Tombolo`;
  for (const [key, { link }] of links) attribute(link, 'aria-current', key === (known ? name : PARENTS[name]) ? 'page' : null);
  const parent = PLACES.find((each) => each.name === PARENTS[name]);
  fill(crumbs, parent && !known ? [h('a', { href: `#/${parent.name}` }, parent.title), h('span', { 'aria-hidden': 'true' }, '›')] : null, h('h1', { class: 'data' }, title));
  main.replaceChildren();
  scrollTo(0, 0);
  const make = known?.view ?? other;
  if (!make) {
    main.append(h('p', { class: 'notice' }, 'There is no such view. ', h('a', { href: '#/' }, 'Back to the map')));
    return;
  }
  view = make(main, { live, id, query, go: (hash) => { location.hash = hash; }, retitle, readdress });
  if (!same) main.focus({ preventScroll: true });
}

function retitle(name) {
  document.title = `${name} · Tombolo`;
  const heading = crumbs.querySelector('h1');
  if (heading) text(heading, name);
}

/** Keeps in the address what a view shows, unless a step has been made to another: the view is left when the step's event comes. */
function readdress(hash) {
  if (location.hash !== shown) return;
  history.replaceState(null, '', hash);
  shown = location.hash;
}

/** What is wrong, in one sentence, or null. */
function trouble() {
  const row = live.row();
  const seen = row ? ` What is shown was seen ${format.ago(performance.now() - live.heard)}.` : '';
  switch (live.state) {
    case 'refused':
      return { text: `tombolo web was started anew and has another token: open the link that it printed.${seen}` };
    case 'lost': {
      const wait = Math.max(0, Math.ceil(((live.retryAt ?? 0) - performance.now()) / 1000));
      return { text: `No connection to tombolo web; ${wait ? `trying again in ${wait} s` : 'trying again'}.${seen}`, retry: true };
    }
    case 'connecting':
      return performance.now() - live.heard > 1500 ? { text: 'Connecting to tombolo web…' } : null;
    default:
  }
  if (row?.monitor === 'gone') {
    return { text: 'The machine’s monitor is gone. Bring it up again with tombolo up, and this page follows it. What is shown is how it was last.', about: row.trouble };
  }
  return row?.trouble ? { text: row.trouble } : null;
}

const bannerText = h('span');
const retry = h('button', { type: 'button', onclick: () => live.wake() }, 'Try now');
banner.append(icon('down'), bannerText, retry);

function frame() {
  const row = live.row();
  if (row) {
    text(machineName, row.name);
    for (const { number, each } of links.values()) if (number) text(number, format.about(row[each.count]));
  }
  const wrong = trouble();
  banner.hidden = !wrong;
  if (wrong) {
    text(bannerText, wrong.text);
    attribute(bannerText, 'title', wrong.about);
    retry.hidden = !wrong.retry;
  }
  const fresh = live.fresh();
  attribute(document.documentElement, 'data-stale', fresh || !row ? null : '');
  attribute(pill, 'data-state', !row ? 'waiting' : !fresh ? 'gone' : row.nodes_up < row.nodes ? 'part' : 'good');
  text(pill, !row ? 'connecting' : !fresh ? 'not live' : row.nodes_up < row.nodes ? `${row.nodes_up} of ${row.nodes} up` : `${format.several(row.nodes, 'node')} up`);
  if (row) {
    attribute(access, 'data-steer', row.steer ? '' : null);
    text(access, row.steer ? 'steering' : 'read-only');
    attribute(access, 'title', row.steer ? 'Started with --steer: this page can change the machine' : 'Started without --steer: this page can only look');
  }
}

let prefix = 0;

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest?.('input, textarea, select, [contenteditable]');
  if (event.key === 'Escape' && typing) {
    typing.blur();
    return;
  }
  if (typing || isOpen()) return;
  if (prefix && performance.now() - prefix < 1500) {
    prefix = 0;
    const found = PLACES.find((each) => each.key === event.key);
    if (found) {
      event.preventDefault();
      location.hash = `#/${found.name}`;
    }
    return;
  }
  if (view?.key?.(event)) {
    event.preventDefault();
    return;
  }
  switch (event.key) {
    case 'g': prefix = performance.now(); break;
    case '?': help(PLACES); break;
    case 'T': switchTheme(); break;
    case 's': if (!startButton.matches('[aria-disabled]')) start(live); break;
    case '/': {
      const field = main.querySelector('input[type=search]');
      if (!field) return;
      field.focus();
      field.select();
      break;
    }
    case 'Escape': {
      const parent = PARENTS[here().parts[0]];
      if (parent === undefined) return;
      location.hash = `#/${parent}`;
      break;
    }
    default: return;
  }
  event.preventDefault();
}

build();
addEventListener('hashchange', go);
addEventListener('keydown', key);
live.listeners.add(() => soon(frame));
setInterval(() => { if (live.state !== 'open') soon(frame); }, 1000);
go();
frame();
