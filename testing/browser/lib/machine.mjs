// A machine and its web servers for one test run; removes everything afterwards.

import { spawn, execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync, existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const target = path.resolve(process.env.TARGET ?? 'target');
const programs = path.join(target, process.env.PROFILE ?? 'release');
export const tombolo = path.join(programs, 'tombolo');
export const images = path.join(target, 'kit/images');

for (const part of [tombolo, path.join(images, 'communities.tbi'), path.join(target, 'kit/aarch64/tombolod')]) {
  if (!existsSync(part)) throw new Error(`${part} is missing: run \`make kit\` first`);
}

const running = new Set();

/** Ends every process that was started here. */
export async function clear() {
  for (const child of [...running]) await end(child);
}

function end(child) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve();
      return;
    }
    const hard = setTimeout(() => child.kill('SIGKILL'), 10_000);
    child.once('exit', () => {
      clearTimeout(hard);
      resolve();
    });
    child.kill('SIGTERM');
  });
}

function started(program, words, options) {
  const child = spawn(program, words, options);
  running.add(child);
  child.once('exit', () => running.delete(child));
  child.said = '';
  child.complained = '';
  child.stdout?.on('data', (bytes) => { child.said = (child.said + bytes).slice(-65536); });
  child.stderr?.on('data', (bytes) => { child.complained = (child.complained + bytes).slice(-65536); });
  return child;
}

/** The first line that a child prints. Rejects when it ends or prints none in time. */
function line(child, what, seconds = 60) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} said nothing within ${seconds} s; ${child.complained}`)), seconds * 1000);
    const look = () => {
      const at = child.said.indexOf('\n');
      if (at < 0) return;
      clearTimeout(timer);
      resolve(child.said);
    };
    child.stdout.on('data', look);
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`${what} ended with ${code}: ${child.complained}`));
    });
    look();
  });
}

export class Machine {
  /** `nodes` is the machine file without its name. */
  constructor(nodes, name = `browser-${process.pid}`) {
    this.name = name;
    this.folder = mkdtempSync(path.join(tmpdir(), 'tombolo-browser-'));
    this.file = path.join(this.folder, 'machine.toml');
    writeFileSync(this.file, `name = "${name}"\n${nodes}`);
    this.environment = { ...process.env, TOMBOLO_MACHINE: name, XDG_RUNTIME_DIR: this.folder, TMPDIR: this.folder };
    for (const variable of ['TOMBOLO_MONITOR', 'TOMBOLO_KIT', 'TOMBOLO_TOMBOLOD', 'TOMBOLO_NODE']) delete this.environment[variable];
  }

  /** Runs `tombolo` to its end and resolves to its output. */
  tombolo(...words) {
    return new Promise((resolve, reject) => {
      execFile(tombolo, words, { env: this.environment, cwd: this.folder, timeout: 120_000, maxBuffer: 1 << 24 }, (error, said, complained) => {
        if (error) reject(new Error(`tombolo ${words.join(' ')}: ${complained || error.message}`));
        else resolve(said);
      });
    });
  }

  async json(...words) {
    return JSON.parse(await this.tombolo(...words, '--json'));
  }

  /** Starts a program by `tombolo run`, without waiting for it. */
  start(...words) {
    return started(tombolo, ['run', '--no-input', ...words], { env: this.environment, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  async up() {
    await this.tombolo('up', this.file);
    this.isUp = true;
  }

  /** The entry of a node in `tombolo status`. */
  async node(name) {
    const { machines } = await this.json('status');
    return machines[0].nodes.find((node) => node.name === name);
  }

  /** Starts `tombolo web`; resolves to `{url, address, token, child, stop}`. */
  async web(...words) {
    const child = started(tombolo, ['web', '--json', ...(words.includes('--port') ? [] : ['--port', '0']), ...words], { env: this.environment, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    const said = JSON.parse(await line(child, 'tombolo web'));
    return { ...said, child, stop: () => end(child) };
  }

  async down() {
    if (this.isUp) await this.tombolo('down').catch(() => {});
    this.isUp = false;
  }

  async remove() {
    await this.down();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A synthetic machine: the real monitor with a thousand simulated nodes and ten thousand simulated domains. */
export class SyntheticMachine extends Machine {
  constructor(...words) {
    super('', `synthetic-${process.pid}`);
    this.words = words;
  }

  async up() {
    const program = path.join(programs, 'tombolo-synthetic');
    if (!existsSync(program)) throw new Error(`${program} is missing: scripts/browser.sh builds it`);
    this.child = started(program, ['--machine', this.name, ...this.words], { env: this.environment, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    const until = Date.now() + 60_000;
    for (;;) {
      try {
        await this.tombolo('status');
        return;
      } catch (error) {
        if (Date.now() > until || this.child.exitCode !== null) throw new Error(`tombolo-synthetic: ${this.child.complained} ${error.message}`);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }
  }

  async down() {
    if (this.child) await end(this.child);
  }
}
