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

/** The lines of a text that are not empty. */
const lines = (value) => value.split('\n').map((each) => each.trim()).filter(Boolean);

/** `NAME=VALUE` of each line, as an object. */
export function variables(value) {
  return Object.fromEntries(lines(value).map((each) => {
    const at = each.indexOf('=');
    if (at < 1) throw new Error(`${each} is not NAME=VALUE`);
    return [each.slice(0, at), each.slice(at + 1)];
  }));
}

/** The part of the form that makes a job of it: how many domains where, in what environment, with which files. */
class JobFields {
  constructor(live) {
    this.counts = h('div', { class: 'fields' });
    this.environment = h('textarea', { id: 'environment', rows: 2, spellcheck: 'false', autocomplete: 'off', placeholder: 'NAME=VALUE, one a line' });
    this.grants = h('textarea', { id: 'grants', rows: 2, spellcheck: 'false', autocomplete: 'off', placeholder: 'PATH or PATH:rw, one a line' });
    this.node = h('details', { class: 'job-fields' }, h('summary', null, 'Several domains, environment, files'),
      h('p', { class: 'faint' }, 'Domains on each node. They make a job: each has its rank in its environment, and when one fails or the job is stopped, all end.'),
      this.counts,
      h('div', { class: 'fields' }, h('label', { for: 'environment' }, 'Environment'), this.environment,
        h('label', { for: 'grants' }, 'Files of the host that the job may use'), this.grants));
    this.targets = [];
    this.watch = live.watch({ view: 'nodes' }, () => this.show());
  }

  /** Offers the nodes that an image has builds for. */
  offer(targets) {
    this.targets = targets;
    this.show();
  }

  show() {
    const nodes = this.watch.list().filter((row) => row.phase === 'up' && this.targets.includes(row.target));
    const names = nodes.map((row) => row.name);
    if (names.join('\n') === this.names) return;
    this.names = names.join('\n');
    const before = new Map(this.ranks().map((each) => [each.node, each.count]));
    fill(this.counts, nodes.map((row) => {
      const id = `count-${row.name}`;
      return [h('label', { for: id }, row.name), h('input', { id, type: 'number', min: 0, max: 4096, step: 1, value: before.get(row.name) ?? 0, inputmode: 'numeric', 'data-node': row.name })];
    }));
  }

  /** How many domains where, of the nodes that get any. */
  ranks() {
    const inputs = [...this.counts.querySelectorAll('input')];
    return inputs.map((input) => ({ node: input.dataset.node, count: Number(input.value) })).filter((each) => each.count > 0);
  }

  stop() {
    this.watch.stop();
  }
}

/** Opens the dialog. */
export async function start(live) {
  if (isOpen() || !live.steers()) return;
  const image = h('select', { id: 'image', required: true });
  const node = h('select', { id: 'node' });
  const needs = h('input', { id: 'needs', autocomplete: 'off', spellcheck: 'false', placeholder: 'memory>=256M,near=arm0' });
  const line = h('input', { id: 'arguments', autocomplete: 'off', spellcheck: 'false', placeholder: '--option "two words"' });
  const folder = h('input', { id: 'directory', autocomplete: 'off', spellcheck: 'false', placeholder: 'as it is' });
  const why = h('p', { class: 'faint', role: 'status', id: 'why' });
  const about = h('p', { class: 'faint' }, 'Looking for images…');
  const go = h('button', { class: 'primary', type: 'submit', disabled: true }, 'Start');
  const job = new JobFields(live);
  const form = h('form', { class: 'fields' }, h('label', { for: 'image' }, 'Image'), image, about, h('label', { for: 'arguments' }, 'Arguments'), line,
    h('label', { for: 'needs' }, 'Needs'), needs, h('label', { for: 'node' }, 'Node'), node, why, h('label', { for: 'directory' }, 'Folder'), folder, job.node,
    h('footer', null, h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), go));
  const box = dialog('Start an image', form);
  box.addEventListener('close', () => job.stop());
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
    job.offer(found?.targets ?? []);
    if (!found) return;
    const mine = asked += 1;
    suggestion = null;
    fill(node, h('option', { value: '' }, 'the best one'));
    text(why, 'Asking for the best node…');
    try {
      const answer = await ask(`/api/suggest?image=${encodeURIComponent(found.file)}&needs=${encodeURIComponent(needs.value)}`);
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
  needs.addEventListener('change', choose);
  node.addEventListener('change', explain);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    /** What a field says, or null once it has said what is wrong with it. */
    const read = (field, parse) => {
      try {
        return parse(field.value);
      } catch (error) {
        field.setCustomValidity(error.message);
        field.reportValidity();
        field.addEventListener('input', () => field.setCustomValidity(''), { once: true });
        return null;
      }
    };
    const given = read(line, words);
    const environment = given && read(job.environment, variables);
    if (!environment) return;
    const grants = lines(job.grants.value);
    const ranks = job.ranks();
    // Files are granted to jobs, of one domain too.
    if (grants.length && !ranks.length) ranks.push({ node: node.value, count: 1 });
    go.disabled = true;
    const body = { image: image.value, node: node.value || null, needs: needs.value || null, arguments: given, directory: folder.value || null, ranks, environment, grants };
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
