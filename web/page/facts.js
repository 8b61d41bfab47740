// A list of names and values, of which those without a value are not shown.

import { h, text } from './dom.js';

export class Facts {
  constructor(names) {
    this.node = h('dl', { class: 'facts' });
    this.parts = new Map();
    for (const name of names) {
      const value = h('dd', { class: 'data' });
      const part = h('div', { hidden: true }, h('dt', null, name), value);
      this.parts.set(name, { part, value });
      this.node.append(part);
    }
  }

  put(name, value) {
    const { part, value: place } = this.parts.get(name);
    const known = value !== null && value !== undefined && value !== '';
    part.hidden = !known;
    if (!known) return;
    if (value instanceof Node || Array.isArray(value)) {
      const parts = [value].flat();
      const said = parts.map((each) => (each instanceof Node ? each.outerHTML : each)).join('');
      if (this[`said ${name}`] !== said) place.replaceChildren(...parts);
      this[`said ${name}`] = said;
    } else text(place, value);
  }
}
