// The WebSocket: what the page wants to see, and what the server says of it.
//
// Every view keeps its rows when the connection goes: they stay on the screen, grey, with their age, until there are new
// ones. Nothing is asked for twice: all that is watched goes in one message, sent once a frame at most.

import { soon } from './dom.js';

/** A server says what time it is at least this often; longer silence is a connection that only seems to be there. */
const SILENCE_MS = 15_000;
/** A page that nobody sees for so long lets go of its connection, and has the present when it is looked at again. */
const ASLEEP_MS = 120_000;
const RETRY_FIRST_MS = 400;
const RETRY_MOST_MS = 15_000;

/** What is watched: rows by key in the server's order. */
class Watch {
  rows = new Map();
  order = [];
  total = 0;
  error = null;
  /** Nothing has come yet for the present parameters. */
  waiting = true;

  constructor(live, parameters, changed) {
    this.live = live;
    this.changed = changed;
    this.run = () => {
      if (!this.stopped) this.changed(this);
    };
    this.ask(parameters);
  }

  /** Watches with other parameters; what is there stays until the answer. */
  ask(parameters) {
    const given = JSON.stringify(parameters);
    if (given === this.given) return;
    this.given = given;
    this.live.watches.delete(this.id);
    this.id = `w${this.live.next++}`;
    this.parameters = parameters;
    this.waiting = true;
    this.live.watches.set(this.id, this);
    this.live.tell();
  }

  stop() {
    this.stopped = true;
    this.live.watches.delete(this.id);
    this.live.tell();
  }

  first() {
    return this.rows.get(this.order[0]) ?? null;
  }

  list() {
    const found = [];
    for (const key of this.order) {
      const row = this.rows.get(key);
      if (row) found.push(row);
    }
    return found;
  }

  take(message) {
    this.error = message.error ?? null;
    if (message.error !== undefined) {
      this.waiting = false;
      soon(this.run);
      return;
    }
    if (message.pieces || message.ended !== undefined) {
      const anew = this.waiting;
      this.waiting = false;
      this.onpieces?.(message, anew);
      return;
    }
    if (message.full) {
      this.rows.clear();
      this.order = [];
    }
    for (const key of message.gone ?? []) this.rows.delete(key);
    for (const row of message.set ?? []) {
      if (!this.rows.has(row.key) && !message.order) this.order.push(row.key);
      this.rows.set(row.key, row);
    }
    if (message.order) this.order = message.order;
    else if (message.gone?.length) this.order = this.order.filter((key) => this.rows.has(key));
    this.total = message.total ?? this.order.length;
    this.waiting = false;
    soon(this.run);
  }
}

/** The connection. `state` is `connecting`, `open`, `lost`, `refused` or `asleep`. */
export class Live {
  watches = new Map();
  next = 1;
  state = 'connecting';
  listeners = new Set();
  /** When the last message came, by this browser's clock that never jumps. */
  heard = performance.now();
  #socket = null;
  #retry = RETRY_FIRST_MS;
  #timer = 0;
  #asked = '';
  #machine = null;
  #hidden = 0;

  constructor() {
    this.run = () => this.#send();
    this.machine = new Watch(this, { view: 'machine' }, () => this.#told());
    document.addEventListener('visibilitychange', () => this.wake());
    addEventListener('online', () => this.wake());
    addEventListener('pageshow', () => this.wake());
    setInterval(() => this.#check(), 2000);
    this.#connect();
  }

  /** Watches a view; `changed` is called before the next painting after something came. */
  watch(parameters, changed) {
    return new Watch(this, parameters, changed);
  }

  /** What the monitor's clock says now, in ms: counted on from its last word. */
  now() {
    return this.#machine ? this.#machine.row.now_ms + (performance.now() - this.#machine.at) : null;
  }

  /** Milliseconds since 1970 for a time of the monitor's clock. */
  wall(ms) {
    return this.#machine ? this.#machine.row.wall_ms - (this.#machine.row.now_ms - ms) : null;
  }

  /** Age of something of the monitor's clock. While nothing comes, ages stand still at what was last known. */
  age(ms) {
    const now = this.state === 'open' ? this.now() : this.#machine?.row.now_ms ?? null;
    return now === null || ms === null || ms === undefined ? null : Math.max(0, now - ms);
  }

  /** The machine as it was last. */
  row() {
    return this.#machine?.row ?? null;
  }

  /** Whether what is on the screen is the present. */
  fresh() {
    return this.state === 'open' && (this.row()?.monitor ?? 'connected') === 'connected';
  }

  /** Whether buttons that change something can work. */
  steers() {
    return Boolean(this.row()?.steer) && this.fresh();
  }

  /** Tries again now instead of when its time comes. */
  wake() {
    if (document.visibilityState === 'hidden') {
      this.#hidden ||= performance.now();
      return;
    }
    this.#hidden = 0;
    if (this.state === 'asleep' || this.state === 'lost' || this.state === 'refused') this.#connect();
    else this.#check();
  }

  tell() {
    soon(this.run);
    // A page in the background paints nothing, and is asked for nothing new.
  }

  #told() {
    const row = this.machine.first();
    if (row) this.#machine = { row, at: performance.now() };
    this.#changed();
  }

  #changed() {
    for (const listener of this.listeners) listener(this);
  }

  #send() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    const watch = [...this.watches].map(([id, { parameters }]) => ({ id, ...parameters }));
    const said = JSON.stringify({ watch });
    if (said === this.#asked) return;
    this.#asked = said;
    this.#socket.send(said);
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#socket?.close();
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.#socket = socket;
    this.heard = performance.now();
    socket.onopen = () => {
      this.#asked = '';
      this.#send();
    };
    socket.onmessage = (event) => {
      this.heard = performance.now();
      this.#retry = RETRY_FIRST_MS;
      if (this.state !== 'open') {
        this.state = 'open';
        this.#changed();
      }
      let message;
      try {
        message = JSON.parse(event.data);
      } catch {
        return;
      }
      this.watches.get(message.id)?.take(message);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#lost();
    };
  }

  async #lost() {
    this.#socket = null;
    // Views are sent whole when there is a server again; until then they stay.
    for (const watch of this.watches.values()) watch.waiting = true;
    this.state = 'lost';
    this.#changed();
    const wait = this.#retry * (0.75 + Math.random() / 2);
    this.#retry = Math.min(this.#retry * 1.7, RETRY_MOST_MS);
    this.retryAt = performance.now() + wait;
    this.#timer = setTimeout(() => this.#again(), wait);
  }

  /** A browser does not say why a WebSocket was refused; an ordinary request does. */
  async #again() {
    try {
      const answer = await fetch('/api/results', { cache: 'no-store' });
      if (answer.status === 401 || answer.status === 403) {
        this.state = 'refused';
        this.#changed();
        this.#timer = setTimeout(() => this.#again(), RETRY_MOST_MS);
        return;
      }
    } catch {
      // Nobody there: the attempt below fails as well, and the next comes later.
    }
    this.#connect();
  }

  #check() {
    if (this.#hidden && performance.now() - this.#hidden > ASLEEP_MS && this.state !== 'asleep') {
      const socket = this.#socket;
      this.#socket = null;
      socket?.close();
      clearTimeout(this.#timer);
      for (const watch of this.watches.values()) watch.waiting = true;
      this.state = 'asleep';
      return;
    }
    if (this.state === 'open' && performance.now() - this.heard > SILENCE_MS) {
      const socket = this.#socket;
      this.#socket = null;
      socket?.close();
      this.#lost();
    }
    this.#changed();
  }
}

/** Asks the server for something, or to do something. What it refuses is an `Error` with its words. */
export async function ask(path, body) {
  const options = { cache: 'no-store', credentials: 'same-origin' };
  if (body !== undefined) {
    options.method = 'POST';
    options.headers = { 'Content-Type': 'application/json' };
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error('tombolo web does not answer. Is it still running?');
  }
  if (answer.ok) {
    const type = answer.headers.get('Content-Type') ?? '';
    return type.startsWith('application/json') ? answer.json() : answer;
  }
  let said = null;
  try {
    said = (await answer.json()).error;
  } catch {
    // An answer without words of its own.
  }
  throw new Error(said || `tombolo web answered ${answer.status}`);
}
