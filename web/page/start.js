// Starting an image: which, with what, and where.

import { h, text, fill } from './dom.js';
import * as format from './format.js';
import { ask } from './live.js';
import { deed, dialog, isOpen } from './dialog.js';
import { visible } from './text.js';

/** Words as a shell would see them, without its expansions: quotes keep blanks together. */
export function words(line) {
  const found = [];
  let word = null;
  let quote = null;
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at];
    if (quote) {
      if (character === quote) quote = null;
      else if (character === '\\' && quote === '"' && at + 1 < line.length && '"\\'.includes(line[at + 1])) word += line[at += 1];
      else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (character === '\\' && at + 1 < line.length) word = (word ?? '') + line[at += 1];
    else if (/\s/.test(character)) {
      if (word !== null) found.push(word);
      word = null;
    } else word = (word ?? '') + character;
  }
  if (quote) throw new Error(`a quote ${quote} is not closed`);
  if (word !== null) found.push(word);
  return found;
}

/** Opens the dialog. */
export async function start(live) {
  if (isOpen() || !live.steers()) return;
  const image = h('select', { id: 'image', required: true });
  const node = h('select', { id: 'node' });
  const line = h('input', { id: 'arguments', autocomplete: 'off', spellcheck: 'false', placeholder: '--option "two words"' });
  const folder = h('input', { id: 'directory', autocomplete: 'off', spellcheck: 'false', placeholder: 'as it is' });
  const why = h('p', { class: 'faint', role: 'status', id: 'why' });
  const about = h('p', { class: 'faint' }, 'Looking for images…');
  const go = h('button', { class: 'primary', type: 'submit', disabled: true }, 'Start');
  const form = h('form', { class: 'fields' }, h('label', { for: 'image' }, 'Image'), image, about, h('label', { for: 'arguments' }, 'Arguments'), line,
    h('label', { for: 'node' }, 'Node'), node, why, h('label', { for: 'directory' }, 'Folder'), folder,
    h('footer', null, h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), go));
  const box = dialog('Start an image', form);
  let images = [];
  const unusable = h('p', { class: 'faint', hidden: true });
  about.after(unusable);
  let suggestion = null;
  let asked = 0;
  const explain = () => {
    const chosen = node.value;
    const other = suggestion?.others?.find((each) => each.node === chosen);
    if (!suggestion) text(why, '');
    else if (chosen === suggestion.node) text(why, `${suggestion.node}: ${suggestion.why}`);
    else text(why, other ? `${other.why}. Suggested: ${suggestion.node}, ${suggestion.why}` : `Suggested: ${suggestion.node}: ${suggestion.why}`);
  };
  const choose = async () => {
    const found = images.find((each) => each.file === image.value);
    text(about, found ? `${(found.targets ?? []).join(', ')} · ${format.bytes(found.bytes)}${found.restartable ? ' · can be moved' : ''}` : '');
    go.disabled = !found;
    if (!found) return;
    const mine = asked += 1;
    suggestion = null;
    fill(node, h('option', { value: '' }, 'the best one'));
    text(why, 'Asking for the best node…');
    try {
      const answer = await ask(`/api/suggest?image=${encodeURIComponent(found.file)}`);
      if (mine !== asked) return;
      suggestion = answer;
      // What is shown is what is asked for: by the time of a click another node may be the best.
      fill(node, h('option', { value: answer.node }, `${answer.node} (suggested)`), (answer.others ?? []).filter((each) => each.node !== answer.node).map((each) => h('option', { value: each.node }, each.node)));
      explain();
    } catch (error) {
      if (mine === asked) text(why, error.message);
    }
  };
  image.addEventListener('change', choose);
  node.addEventListener('change', explain);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    let given;
    try {
      given = words(line.value);
    } catch (error) {
      line.setCustomValidity(error.message);
      line.reportValidity();
      line.addEventListener('input', () => line.setCustomValidity(''), { once: true });
      return;
    }
    go.disabled = true;
    const body = { image: image.value, node: node.value || null, arguments: given, directory: folder.value || null };
    const done = await deed(() => ask('/api/start', body), (answer) => `Started as ${answer.domain}`);
    go.disabled = false;
    if (done?.domain) {
      box.close();
      location.hash = `#/domain/${done.domain}`;
    }
  });
  try {
    const listing = await ask('/api/images');
    images = listing.images;
    unusable.hidden = !listing.unusable?.length;
    text(unusable, (listing.unusable ?? []).slice(0, 5).join('; '));
  } catch (error) {
    text(about, error.message);
    return;
  }
  if (!images.length) {
    text(about, 'There are no images in the folders that tombolo web was given with --images. Build one with tombolo build.');
    return;
  }
  fill(image, images.map((each) => h('option', { value: each.file }, each.name === each.file ? visible(each.file) : `${each.name} – ${each.file}`)));
  image.focus();
  await choose();
}
