// Building and changing the document. Every text that passes through here is a text node, and shows what it holds.

import { visible } from './text.js';

const SVG = 'http://www.w3.org/2000/svg';

function put(node, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === 'value') node.value = value;
    else node.setAttribute(name, value === true ? '' : String(value));
  }
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

/** An element: its name, its attributes (`onclick` and the like are listeners), its children; texts become visible text. */
export function h(name, attributes, ...children) {
  const node = document.createElement(name);
  put(node, attributes);
  return append(node, children);
}

/** The same in a drawing. */
export function s(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  put(node, attributes);
  return append(node, children);
}

/** Changes a text, if it is another. */
export function text(node, value) {
  const shown = value === null || value === undefined ? '' : visible(value);
  if (node.textContent !== shown) node.textContent = shown;
}

/** Changes an attribute, if it is another; null takes it away. */
export function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const given = value === true ? '' : String(value);
    if (node.getAttribute(name) !== given) node.setAttribute(name, given);
  }
}

/** Changes a property of an element's style, if it is another. */
export function style(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/** Makes these the children of `node`. */
export function fill(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

/**
 * Keeps the children of `parent` in step with `keys`: `make(key)` makes `{node, update(key)}` for a new one, and those that
 * are gone are removed. Nodes that stay are moved only where their order changed, so that focus stays.
 */
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.parts = new Map();
    this.order = [];
  }

  set(keys) {
    this.order = keys;
    const wanted = new Set(keys);
    for (const [key, part] of this.parts) {
      if (!wanted.has(key)) {
        part.stop?.();
        part.node.remove();
        this.parts.delete(key);
      }
    }
    const focused = document.activeElement;
    const inside = this.parent.contains(focused);
    let at = this.parent.firstChild;
    for (const key of keys) {
      let part = this.parts.get(key);
      if (!part) {
        part = this.make(key);
        this.parts.set(key, part);
      }
      if (part.node === at) at = at.nextSibling;
      else this.parent.insertBefore(part.node, at);
      part.update?.(key);
    }
    // What is moved loses the focus.
    if (inside && document.activeElement !== focused && this.parent.contains(focused)) focused.focus({ preventScroll: true });
  }

  stop() {
    for (const part of this.parts.values()) part.stop?.();
  }
}

let frame = 0;
const waiting = new Set();

/** Runs `work` once before the next painting, however often it is asked for. */
export function soon(work) {
  waiting.add(work);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const now = [...waiting];
    waiting.clear();
    for (const each of now) each();
  });
}

/** Takes back what `soon` was asked. */
export function never(work) {
  waiting.delete(work);
}

const ICONS = {
  map: 'M4 7a2 2 0 1 0 4 0a2 2 0 1 0-4 0M16 6a2 2 0 1 0 4 0a2 2 0 1 0-4 0M10 18a2 2 0 1 0 4 0a2 2 0 1 0-4 0M8 7l8-1M7 9l4 7M17 8l-4 8',
  domains: 'M4 5h16v4H4zM4 11h16v4H4zM4 17h10v3H4z',
  channels: 'M4 8h13l-3-3M20 16H7l3 3',
  memory: 'M5 5h14v14H5zM9 5v14M14 5v14M5 12h14',
  hubs: 'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM4 4l5.5 5.5M20 4l-5.5 5.5M4 20l5.5-5.5M20 20l-5.5-5.5',
  names: 'M4 4h8l8 8-8 8-8-8zM8.5 8.5v.01',
  events: 'M4 12h4l3-7 4 14 2-7h3',
  trace: 'M4 6h9M8 12h12M5 18h7',
  results: 'M5 20V10M11 20V4M17 20v-7M3 20h18',
  sun: 'M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  moon: 'M20 14A8 8 0 1 1 10 4a6.5 6.5 0 0 0 10 10z',
  help: 'M9 9a3 3 0 1 1 4.2 2.8c-.8.4-1.2 1-1.2 2.2M12 17.5v.01',
  play: 'M8 5v14l11-7z',
  pause: 'M8 5v14M16 5v14',
  stop: 'M6 6h12v12H6z',
  kill: 'M6 6l12 12M18 6L6 18',
  repeat: 'M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5',
  move: 'M4 12h14l-4-4M18 12l-4 4',
  down: 'M12 7v6M12 16.5v.01M10.3 4.3L3 17a2 2 0 0 0 1.7 3h14.6a2 2 0 0 0 1.7-3L13.7 4.3a2 2 0 0 0-3.4 0z',
  search: 'M10.5 4a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13M15.5 15.5L20 20',
  more: 'M5 12v.01M12 12v.01M19 12v.01',
  download: 'M12 4v11M8 11l4 4 4-4M5 20h14',
  open: 'M14 4h6v6M20 4l-9 9M18 14v6H4V6h6',
};

/** A small drawing beside a text that says the same. */
export function icon(name) {
  return s('svg', { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true' }, s('path', { d: ICONS[name] ?? ICONS.more }));
}
