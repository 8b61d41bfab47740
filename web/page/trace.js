// Recording the machine, and looking at it in Perfetto.

import { h, text, icon } from './dom.js';
import * as format from './format.js';
import { ask } from './live.js';
import { Bound } from './bound.js';
import { say } from './dialog.js';

const PERFETTO = 'https://ui.perfetto.dev';
const ANSWER_MS = 30_000;

/** Opens a recording in Perfetto's own page: it answers a PING when it is ready. Nothing is uploaded; it stays in the browser. */
function open(buffer, title) {
  const page = window.open(PERFETTO);
  if (!page) {
    say('The browser kept the window from opening. Allow windows for this page, or download the recording.', true);
    return;
  }
  const until = performance.now() + ANSWER_MS;
  const timer = setInterval(() => {
    if (page.closed || performance.now() > until) {
      clearInterval(timer);
      removeEventListener('message', answered);
      if (!page.closed) say('Perfetto did not answer. Download the recording and open it there.', true);
      return;
    }
    page.postMessage('PING', PERFETTO);
  }, 200);
  const answered = (event) => {
    if (event.source !== page || event.origin !== PERFETTO || event.data !== 'PONG') return;
    clearInterval(timer);
    removeEventListener('message', answered);
    page.postMessage({ perfetto: { buffer, title, fileName: 'tombolo.pftrace' } }, PERFETTO);
  };
  addEventListener('message', answered);
}

/** The view. */
export function trace(root, { live }) {
  let recording = null;
  let running = null;
  const seconds = h('input', { id: 'seconds', type: 'number', min: 1, max: 60, value: 5, inputmode: 'numeric' });
  const progress = h('progress', { max: 1, value: 0, hidden: true, 'aria-label': 'Recording' });
  const state = h('p', { class: 'faint', role: 'status' });
  const record = h('button', { class: 'primary', type: 'button' }, icon('trace'), 'Record');
  new Bound(live, record, 'Record messages, calls and waits of all domains', () => (running ? 'a recording runs' : null));
  const look = h('button', { type: 'button', hidden: true, onclick: () => open(recording.buffer.slice(0), recording.title) }, icon('open'), 'Open in Perfetto');
  const save = h('a', { class: 'button', hidden: true, download: 'tombolo.pftrace' }, icon('download'), 'Download');
  record.addEventListener('click', async () => {
    const length = Math.max(1, Math.min(60, Number(seconds.value) || 5));
    const began = performance.now();
    progress.hidden = false;
    running = setInterval(() => {
      const done = (performance.now() - began) / (length * 1000);
      progress.value = Math.min(1, done);
      text(state, done < 1 ? `Recording: ${Math.ceil(length * (1 - done))} s to go` : 'Gathering what was recorded…');
    }, 100);
    try {
      const answer = await ask(`/trace?seconds=${length}`);
      const buffer = await answer.arrayBuffer();
      recording = { buffer, title: `${live.row()?.name ?? 'tombolo'}, ${length} s at ${new Date().toLocaleTimeString('en-GB')}` };
      if (save.href) URL.revokeObjectURL(save.href);
      save.href = URL.createObjectURL(new Blob([buffer], { type: 'application/octet-stream' }));
      look.hidden = false;
      save.hidden = false;
      text(state, `Recorded ${length} s: ${format.bytes(buffer.byteLength)}.${buffer.byteLength < 200 ? ' No program sent, called or waited meanwhile.' : ''}`);
    } catch (error) {
      text(state, '');
      say(error.message, true);
    }
    clearInterval(running);
    running = null;
    progress.hidden = true;
  });
  root.append(h('section', { class: 'panel trace' },
    h('header', null, h('h2', null, 'Record the machine')),
    h('p', null, 'Records what passes on every node, with all their clocks on one line: messages from where they are sent to where they are received, calls, waits, copies, and what programs mark themselves.'),
    h('div', { class: 'row' }, h('label', { for: 'seconds' }, 'Seconds'), seconds, record, look, save),
    progress, state,
    h('p', { class: 'faint' }, 'Perfetto’s page at ui.perfetto.dev draws it. The recording goes from this page to that one within your browser; it is not uploaded. Without a network, download it: ', h('code', null, 'tombolo trace'), ' writes the same file.')));
  return {
    stop() {
      if (running) clearInterval(running);
      if (save.href) URL.revokeObjectURL(save.href);
    },
  };
}
