// Numbers for people. Every function takes null for "not known" and says so with a dash.

const NOTHING = '–';
const plain = new Intl.NumberFormat('en');

function figures(value) {
  if (value >= 100) return value.toFixed(0);
  return String(Number(value.toFixed(value >= 10 ? 1 : 2)));
}

function known(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

/** `12,345`. */
export function count(value) {
  return known(value) ? plain.format(Math.round(value)) : NOTHING;
}

/** `12.3 k`, for what has little room. */
export function about(value) {
  if (!known(value)) return NOTHING;
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(value) >= size) return `${figures(value / size)} ${unit}`;
  }
  return figures(value);
}

/** `1.5 MiB`. */
export function bytes(value) {
  if (!known(value)) return NOTHING;
  for (const [size, unit] of [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB']]) {
    if (value >= size) return `${figures(value / size)} ${unit}`;
  }
  return `${figures(value)} B`;
}

/** `1.5 of 8 GiB`. */
export function part(value, whole) {
  if (!known(value) || !known(whole)) return NOTHING;
  const [, unit] = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB']].find(([size]) => whole >= size) ?? [1, 'B'];
  const size = { TiB: 2 ** 40, GiB: 2 ** 30, MiB: 2 ** 20, KiB: 1024, B: 1 }[unit];
  return `${figures(value / size)} of ${figures(whole / size)} ${unit}`;
}

/** `1.5 MB/s`: rates count in powers of ten, as links are sold. */
export function bytesPerSecond(value) {
  return known(value) ? `${about(value)}B/s`.replace(/(\d)B/, '$1 B') : NOTHING;
}

/** `12.3 k/s`. */
export function perSecond(value) {
  return known(value) ? `${about(value)}/s` : NOTHING;
}

/** `3.1 µs`, of nanoseconds. */
export function nanoseconds(value) {
  if (!known(value)) return NOTHING;
  for (const [size, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']]) {
    if (value >= size) return `${figures(value / size)} ${unit}`;
  }
  return `${figures(value)} ns`;
}

/** `52 %`, of thousandths of one processor. */
export function load(value) {
  if (!known(value)) return NOTHING;
  const percent = value / 10;
  return `${percent >= 9.95 || percent === 0 ? Math.round(percent) : percent.toFixed(1)} %`;
}

/** `2.4 GHz`, of kHz. */
export function frequency(khz) {
  if (!known(khz) || khz === 0) return NOTHING;
  return khz >= 1e6 ? `${(khz / 1e6).toFixed(2)} GHz` : `${Math.round(khz / 1e3)} MHz`;
}

/** `12.5 W`, of mW. */
export function power(mw) {
  if (!known(mw)) return NOTHING;
  return mw >= 1000 ? `${figures(mw / 1000)} W` : `${figures(mw)} mW`;
}

/** The memory of a node; null where it is not known. One on the host's kernel has a part of the host's. */
export function memory(row) {
  if (!known(row.memory_used_bytes)) return null;
  if (row.memory_bytes) return part(row.memory_used_bytes, row.memory_bytes);
  return row.shared ? `${bytes(row.memory_used_bytes)} of the host’s` : bytes(row.memory_used_bytes);
}

/** `3 h 12 min`, of ms. */
export function duration(ms) {
  if (!known(ms)) return NOTHING;
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(Math.max(0, ms))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** `5 s ago`, of ms. */
export function ago(ms) {
  if (!known(ms)) return NOTHING;
  return ms < 1500 ? 'just now' : `${duration(Math.floor(ms / 1000) * 1000).replace('.0', '')} ago`;
}

/** A share from 0 to 1 as `12.3 %`. */
export function share(value) {
  return known(value) ? `${figures(value * 100)} %` : NOTHING;
}

/** Time of day, of ms since 1970. */
export function clock(ms) {
  return known(ms) ? new Date(ms).toLocaleTimeString('en-GB') : NOTHING;
}

/** Names of several: `1 node`, `2 nodes`. */
export function several(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
