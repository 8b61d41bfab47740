// What a node is, in few words.

const SHORT = [
  [/^x86_64|^x86-64|^amd64/, 'x86-64', 'x86'], [/^armv7/, 'Armv7', 'arm'],
  [/^aarch64|^arm/, 'AArch64', 'arm'], [/^riscv/, 'RISC-V', 'riscv'],
  [/^s390x/, 's390x', 'z'], [/^i386/, 'i386', 'x86'],
];

/** Its name for people, and the colour that it has everywhere. */
export function isa(name) {
  const found = SHORT.find(([pattern]) => pattern.test(name ?? ''));
  return found ? { name: found[1], tone: found[2] } : { name: name ?? '', tone: 'other' };
}

const KINDS = { host: 'this host', vm: 'virtual machine', user: 'emulated programs', bare: 'board' };

/** What sort of node it is. */
export function kind(name) {
  return KINDS[name] ?? name ?? '';
}

/** What carries a link. */
export function transport(name) {
  return { shm: 'shared memory', window: 'shared window', socket: 'socket' }[name] ?? name ?? '';
}

/** A colour of the scale of loads, for a share from 0 to 1. */
export function heat(share) {
  const steps = 10;
  const index = Math.max(0, Math.min(steps, Math.ceil((share || 0) * steps)));
  return `var(--heat-${index})`;
}
