// Dialogs: questions before what destroys, forms, help, and short messages.

import { h } from './dom.js';

/** Whether a dialog is open: keys are its own then. */
export function isOpen() {
  return document.querySelector('dialog[open]') !== null;
}

/** Opens a dialog with `content`, and gives it back. It goes with Escape, its buttons, or a press beside it. */
export function dialog(title, ...content) {
  const heading = h('h2', { id: `dialog-${Math.random().toString(36).slice(2)}` }, title);
  const box = h('dialog', { 'aria-labelledby': heading.id }, h('div', { class: 'sheet' },
    h('header', null, heading, h('button', { class: 'quiet close', type: 'button', 'aria-label': 'Close', onclick: () => box.close() }, '✕')),
    ...content));
  box.addEventListener('close', () => box.remove());
  box.addEventListener('click', (event) => {
    if (event.target === box) box.close();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

/** Asks before something is destroyed. Becomes true if it shall be done. `field` is a part of the form, or null. */
export function confirm(title, about, deed, { danger = true, field = null } = {}) {
  return new Promise((resolve) => {
    let answer = false;
    const yes = h('button', { class: danger ? 'danger' : 'primary', type: 'submit' }, deed);
    const form = h('form', { method: 'dialog' }, h('p', null, about), field,
      h('footer', null, h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), yes));
    form.addEventListener('submit', () => { answer = true; });
    const box = dialog(title, form);
    box.addEventListener('close', () => resolve(answer));
    (field?.querySelector('input, select') ?? yes).focus();
  });
}

const messages = h('div', { class: 'messages', role: 'status', 'aria-live': 'polite' });

/** Says something for a while; what failed stays longer. */
export function say(text, failed = false) {
  if (!messages.isConnected) document.body.append(messages);
  const line = h('p', { class: failed ? 'message failed' : 'message' }, text,
    h('button', { class: 'quiet', type: 'button', 'aria-label': 'Dismiss', onclick: () => line.remove() }, '✕'));
  messages.append(line);
  while (messages.children.length > 4) messages.firstChild.remove();
  setTimeout(() => line.remove(), failed ? 15_000 : 5_000);
}

/** Does something and says how it went. Becomes what it answered, or null. */
export async function deed(work, done) {
  try {
    const answer = await work();
    say(typeof done === 'function' ? done(answer) : done);
    return answer;
  } catch (error) {
    say(error.message, true);
    return null;
  }
}

/** All keys. */
export function help(places) {
  const keys = (pairs) => h('dl', { class: 'keys' }, pairs.map(([key, what]) => [h('dt', null, key.split(' ').map((each) => [h('kbd', null, each), ' '])), h('dd', null, what)]));
  const box = dialog('Keys',
    h('div', { class: 'columns' },
      h('section', null, h('h3', null, 'Go to'), keys(places.map((place) => [`g ${place.key}`, place.title]))),
      h('section', null, h('h3', null, 'Lists and the map'), keys([
        ['j', 'Next row, or ↓'], ['k', 'Row before, or ↑'], ['Enter', 'Open it'], ['/', 'Filter'], [']', 'Next page'], ['[', 'Page before'],
        ['←↑↓→', 'From node to node'], ['+', 'Larger'], ['-', 'Smaller']]),
      h('h3', null, 'A domain'), keys([['p', 'Pause or resume'], ['x', 'Stop'], ['K', 'Kill'], ['r', 'Run again'], ['v', 'Move']]),
      h('h3', null, 'Everywhere'), keys([['s', 'Start an image'], ['T', 'Dark or light'], ['Escape', 'Close, or back'], ['?', 'This help']]))));
  return box;
}
