// The page of `tombolo web` in Chromium, against a real machine: this host and an Arm virtual machine.
// usage: TARGET=folder node machine.mjs [words in the names of tests…]

import { copyFileSync, readFileSync, chmodSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { check, eventually, run, test } from './lib/runner.mjs';
import { Machine, clear, images } from './lib/machine.mjs';
import { launch, open, picture, violations } from './lib/browser.mjs';

const results = fileURLToPath(new URL('../../docs/results', import.meta.url));
const NODES = `
[[node]]
name = "host"
kind = "host"

[[node]]
name = "arm0"
kind = "vm"
isa = "aarch64"
memory_mib = 512
window_mib = 64
`;
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

/** A shell script that keeps a processor busy and prints a line from time to time. */
const SPIN = 'i=0; while :; do i=$((i+1)); [ $((i % 200000)) = 0 ] && echo "counted to $i"; done';

/** The hashes of all views. */
const views = (domain) => ['#/', '#/node/arm0', '#/node/host', '#/domains', `#/domain/${domain}`, '#/channels', '#/memory', '#/names', '#/events', '#/trace', '#/results'];

const text = (page, selector) => page.locator(selector).first().innerText();

async function go(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
}

/** Goes to a view and waits until it is drawn and has had time for its first data. */
async function show(page, hash) {
  await go(page, hash);
  await page.waitForFunction((wanted) => location.hash.startsWith(wanted) && document.querySelector('main').childElementCount > 0, hash);
  await page.evaluate(() => new Promise((resolve) => { setTimeout(() => requestAnimationFrame(resolve), 400); }));
}

/** The state of a process in the kernel, such as `R` or `T`. */
function processState(pid) {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '')[0];
}

/** The value of a row in the page's list of facts. */
async function fact(page, name) {
  return page.locator('.facts > div:not([hidden])', { has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) }).locator('dd').innerText();
}

/** Starts a job by `start`, and waits for the domain of its program; jobs of earlier tests may still be ending. */
async function started(machine, program, start) {
  const before = new Set((await machine.json('ps')).domains.map((each) => each.id));
  const job = start();
  const { id } = await eventually(`a domain of ${program}`, async () => {
    const of = (await machine.json('ps')).domains.filter((each) => each.program === program && !before.has(each.id));
    return of.find((each) => !of.some((other) => other.id === each.parent));
  });
  return { job, id };
}

/** Interrupts a job of `Machine.start`, as Ctrl-C does, and waits for its end. */
async function stop(job) {
  job.kill('SIGINT');
  await eventually('its end', () => job.exitCode !== null || job.signalCode !== null);
}

/** Runs a job over and over until `stop`, so that there is always one to see, however fast the machine is. */
function again(start) {
  let job;
  let over = false;
  let failed = null;
  const next = () => {
    job = start();
    job.once('exit', (code) => {
      if (over) return;
      if (code === 0) next();
      else failed = `ended with ${code}: ${job.complained}`;
    });
  };
  next();
  return {
    stop: async () => {
      over = true;
      check(failed === null, failed);
      await stop(job);
    },
  };
}

/** Sends a plain HTTP request with these headers; resolves to the answer. */
function status(address, where, { method = 'GET', headers = {}, body = null } = {}) {
  const { hostname, port } = new URL(address);
  return new Promise((resolve, reject) => {
    const request = httpRequest({ hostname, port, path: where, method, headers }, (answer) => {
      let said = '';
      answer.on('data', (bytes) => { said += bytes; });
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, said }));
    });
    request.on('upgrade', (answer, socket) => {
      socket.destroy();
      resolve({ status: answer.statusCode, headers: answer.headers, said: '' });
    });
    request.on('error', reject);
    request.end(body);
  });
}

const upgrade = (address, more) => ({ Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', Origin: address, ...more });

test('a request without a token, with a wrong one, or from another origin is refused', async ({ steer }) => {
  const { address, token } = steer;
  const bearer = { Authorization: `Bearer ${token}` };
  const refused = async (wanted, where, options, what) => {
    const answer = await status(address, where, options);
    check(answer.status === wanted, `${what}: ${answer.status} and not ${wanted}: ${answer.said.slice(0, 200)}`);
  };
  const wrong = { Authorization: `Bearer ${token.replace(/./g, (digit) => (digit === '0' ? '1' : '0'))}` };
  await refused(200, '/', { headers: bearer }, 'the token');
  await refused(401, '/', {}, 'no token');
  await refused(401, '/', { headers: wrong }, 'a wrong token');
  await refused(401, '/?token=nothing', {}, 'a wrong token in the link');
  await refused(401, '/assets/main.js', {}, 'no token for a script');
  await refused(401, '/metrics', {}, 'no token for metrics');
  await refused(401, '/live', { headers: upgrade(address, {}) }, 'no token for the socket');
  await refused(101, '/live', { headers: upgrade(address, bearer) }, 'the token for the socket');
  await refused(403, '/live', { headers: upgrade('http://elsewhere.example', bearer) }, 'another origin for the socket');
  await refused(403, '/', { headers: { ...bearer, Origin: 'http://elsewhere.example' } }, 'another origin');
  await refused(421, '/', { headers: { ...bearer, Host: 'elsewhere.example' } }, 'another host');
  const post = { method: 'POST', body: '{"domain":"0.1.1"}' };
  await refused(403, '/api/kill', { ...post, headers: { ...bearer, 'Content-Type': 'application/json' } }, 'a POST without origin');
  await refused(401, '/api/kill', { ...post, headers: { 'Content-Type': 'application/json', Origin: address } }, 'a POST without token');
});

test('the link opens the map, and its token is not left in the address', async ({ page, steer }) => {
  await page.goto(steer.url);
  await page.waitForSelector('article.node[data-phase=up] >> nth=1');
  check(!page.url().includes(steer.token), `the address is ${page.url()}`);
  const cookies = await page.context().cookies();
  check(cookies.every(({ httpOnly, sameSite }) => httpOnly && sameSite === 'Strict'), JSON.stringify(cookies));
  const answer = await status(steer.address, '/', { headers: { Authorization: `Bearer ${steer.token}` } });
  const policy = answer.headers['content-security-policy'] ?? '';
  check(policy.includes("default-src 'none'") && !policy.includes('unsafe'), `the policy is ${policy}`);
  const names = await page.locator('article.node .name').allInnerTexts();
  check(names.sort().join() === 'arm0,host', `nodes are ${names}`);
  await eventually('instruction sets', async () => (await page.locator('article.node .chip').allInnerTexts()).includes('AArch64'));
  await eventually('the transport of the link', async () => (await text(page, '.labels .label')).includes('shared window'));
  await eventually('loads of processors', async () => (await page.locator('article.node .core').count()) >= 2);
  await picture(page, 'map-dark');
});

test('a job is seen to start, is paused, goes on and is killed', async ({ page, machine, steer }) => {
  await page.goto(`${steer.address}/#/domains`);
  const job = machine.start('--on', 'host', '/bin/sh', '--', '-c', SPIN);
  const row = page.locator('tbody tr', { has: page.locator('b', { hasText: /^sh$/ }) });
  await row.first().waitFor();
  await row.first().locator('a').click();
  await page.waitForSelector('.output >> text=counted to');
  const pid = await eventually('its process', async () => Number((await fact(page, 'Process')).replace(/\D/g, '')));
  const load = async () => parseFloat(await fact(page, 'Load'));
  await eventually('a load', async () => (await load()) > 5);
  check('RS'.includes(processState(pid)), 'it runs');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.waitForSelector('.head .state-badge[data-state=paused]');
  await eventually('a process that is stopped', () => processState(pid) === 'T');
  await eventually('no load', async () => (await load()) === 0);
  await picture(page, 'domain-paused');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.waitForSelector('.head .state-badge[data-state=runs]');
  await eventually('a process that goes on', () => 'RS'.includes(processState(pid)));
  await eventually('a load again', async () => (await load()) > 5);
  await page.getByRole('button', { name: 'Kill' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  check('RS'.includes(processState(pid)), 'it is not killed by a question');
  await page.getByRole('button', { name: 'Kill' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Kill it' }).click();
  await page.waitForSelector('.head .state-badge[data-state=failed]');
  check((await text(page, '.head .state-badge')).includes('SIGKILL'), 'it says how it ended');
  await eventually('its process gone', () => {
    try {
      return processState(pid) === 'Z';
    } catch {
      return true;
    }
  });
  await eventually('the command that started it ended', () => job.exitCode !== null);
  await eventually('a disabled button', async () => await page.getByRole('button', { name: 'Pause' }).getAttribute('aria-disabled') === 'true');
});

test('an image is started from the dialog, where it was suggested', async ({ page, steer }) => {
  await page.goto(`${steer.address}/#/`);
  await page.waitForSelector('article.node');
  await page.keyboard.press('s');
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await eventually('images', async () => (await dialog.locator('#image option').count()) > 1);
  const value = await dialog.locator('#image option', { hasText: 'communities' }).getAttribute('value');
  await dialog.locator('#image').selectOption(value);
  await eventually('a suggestion', async () => (await dialog.locator('#node option').first().innerText()).includes('suggested'));
  const suggested = (await dialog.locator('#node option').first().innerText()).replace(' (suggested)', '');
  await eventually('the reason', async () => (await dialog.locator('#why').innerText()).length > suggested.length + 4);
  await dialog.locator('#arguments').fill('--rmat 10 --workers none --top 3');
  await picture(page, 'start');
  await dialog.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/#\/domain\//);
  await page.waitForSelector('.output >> text=modularity');
  check((await fact(page, 'Node')).startsWith(suggested), `it runs on ${await fact(page, 'Node')}`);
  await page.waitForSelector('.head .state-badge[data-state=ended]');
  const before = page.url();
  await page.getByRole('button', { name: 'Run again' }).click();
  await eventually('another domain', () => page.url() !== before);
  await page.waitForSelector('.output >> text=modularity');
  await page.waitForSelector('.head .state-badge[data-state=ended]');
});

test('the main job shows how far it is, and is drawn', async ({ page, machine, steer }) => {
  // The drawing stays when its job has ended; the job's record on the map does not, so jobs follow each other.
  const { job, id } = await started(machine, 'communities', () => again(() => machine.start('--on', 'host', path.join(images, 'communities.tbi'), '--', '--rmat', '18', '--workers', 'host:1,arm0:1')));
  await page.goto(`${steer.address}/#/job/${id}`);
  await eventually('circles', async () => (await page.locator('.graph .community').count()) > 3, 180);
  await eventually('shares of both nodes', async () => (await page.locator('.shares .gauge').count()) === 2);
  await eventually('a description of a circle', async () => {
    await page.mouse.move(0, 0);
    await page.locator('.graph .community').first().hover();
    return (await text(page, '.tip')).includes('member');
  });
  await picture(page, 'job', { fullPage: true });
  await go(page, '#/');
  await page.waitForSelector('.jobs a');
  await job.stop();
}, { seconds: 600 });

test('what passes is seen: channels, links, memory and names', async ({ page, machine, steer }) => {
  const job = again(() => machine.start('--on', 'host', path.join(images, 'communities.tbi'), '--', '--rmat', '20', '--workers', 'host:1,arm0:1'));
  await page.goto(`${steer.address}/#/channels`);
  await page.waitForSelector('tbody tr >> text=communities');
  await eventually('messages', async () => (await page.locator('tbody tr').allInnerTexts()).some((row) => /[1-9][\d.]* ?k?\/s/.test(row)));
  await picture(page, 'channels');
  await go(page, '#/');
  await eventually('traffic on the link', async () => (await page.locator('.wires g[data-moves]').count()) === 1);
  await picture(page, 'map-traffic');
  await eventually('who holds memory', async () => {
    await go(page, '#/memory');
    await page.locator('tbody tr', { hasText: 'communities' }).locator('a').first().click({ timeout: 10_000 });
    await page.waitForSelector('h2 >> text=Who holds', { timeout: 2_000 });
    return true;
  });
  await picture(page, 'memory');
  await go(page, '#/names');
  await page.waitForSelector('tbody tr >> text=job/');
  await go(page, '#/events');
  await page.waitForSelector('tbody tr >> text=domain started');
  await job.stop();
}, { seconds: 420 });

test('names and output of others are text, whatever they hold', async ({ page, machine, steer }) => {
  const name = '<img src=x onerror=alert(1)>\u202egnp.sh';
  const program = path.join(machine.folder, name);
  copyFileSync('/bin/sh', program);
  chmodSync(program, 0o755);
  const said = String.raw`printf '\033[31mred\033[0m <script>alert(2)</script> \342\200\256turned\n\377\376\000\001 <b>bold</b>\n'; printf 'first\rsecond\n'; echo oops >&2; read never < /dev/tty; sleep 600`;
  const job = machine.start('--on', 'host', program, '--', '-c', said, '"><svg onload=alert(3)>');
  await page.goto(`${steer.address}/#/domains`);
  const link = page.locator('tbody tr', { hasText: '<img src=x onerror=alert(1)>' });
  await link.first().waitFor();
  check((await link.first().innerText()).includes('⟨RLO⟩'), 'what turns the direction of text is shown');
  check((await page.locator('main img, main script').count()) === 0, 'no element came of a name');
  await link.first().locator('a').click();
  await page.waitForSelector('.output >> text=oops');
  // Errors and output come by streams of their own, in any order.
  const output = await eventually('all of the output', async () => {
    const shown = await page.locator('.output').innerText();
    return shown.includes('second') ? shown : null;
  });
  check(output.includes('red <script>alert(2)</script> ⟨RLO⟩turned'), `output is ${output}`);
  check(output.includes('�') && output.includes('⟨NUL⟩') && output.includes('<b>bold</b>'), `output is ${output}`);
  check(output.includes('second') && !output.includes('first'), 'a carriage return begins the line again');
  check((await page.locator('.output .errors').first().innerText()).includes('oops'), 'errors are told from output');
  check((await page.locator('main').innerText()).includes('binary'), 'binary output is called so');
  await picture(page, 'hostile');
  await machine.tombolo('names', 'set', "odd/name { text: '<img src=x onerror=alert(4)>' }");
  await go(page, '#/names?filter=odd');
  await page.waitForSelector('tbody tr >> text=<img src=x onerror=alert(4)>');
  check((await page.locator('main img').count()) === 0, 'no element came of an attribute');
  await stop(job);
});

test('of huge output the page keeps the end', async ({ page, machine, steer }) => {
  const { job, id } = await started(machine, 'sh', () => machine.start('--on', 'host', '/bin/sh', '--', '-c', 'seq 1 2000000; echo the end; sleep 600'));
  await page.goto(`${steer.address}/#/domain/${id}`);
  await page.waitForSelector('.output >> text=the end');
  await page.waitForSelector('header >> text=left out');
  const kept = await page.locator('.output').evaluate((node) => node.textContent.length);
  check(kept <= 1.1 * 2 ** 20, `the page keeps ${kept} characters`);
  await stop(job);
});

test('a read-only page has disabled buttons that say why, and its server refuses changes', async ({ browser, look, machine }) => {
  const page = await open(browser);
  const { job, id } = await started(machine, 'sleep', () => machine.start('--on', 'host', '/bin/sleep', '--', '600'));
  await page.goto(look.url);
  await page.waitForSelector('article.node');
  check((await text(page, '.badge')) === 'read-only', 'the page says that it can only look');
  await go(page, `#/domain/${id}`);
  await page.waitForSelector('.deeds button');
  for (const button of await page.locator('.deeds button, .top button.primary').all()) {
    check(await button.getAttribute('aria-disabled') === 'true', `${await button.innerText()} is disabled`);
    check((await button.getAttribute('title')).includes('--steer'), 'it says why');
    await button.click({ force: true });
  }
  check((await page.locator('dialog[open]').count()) === 0, 'nothing opens');
  await page.keyboard.press('s');
  await page.keyboard.press('K');
  check((await page.locator('dialog[open]').count()) === 0, 'nothing opens by keys');
  page.expected.push(/403/);
  for (const [deed, body] of [['kill', { domain: id }], ['pause', { domain: id }], ['start', { image: path.join(images, 'communities.tbi'), node: 'host', arguments: [], directory: null }], ['restart', { node: 'arm0' }], ['frequency', { node: 'host', cores: [0], governor: 'powersave', min_khz: null, max_khz: null }]]) {
    const answer = await page.evaluate(async ([where, what]) => {
      const got = await fetch(where, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(what) });
      return { status: got.status, body: await got.json() };
    }, [`/api/${deed}`, body]);
    check(answer.status === 403 && answer.body.error.length > 10, `${deed}: ${JSON.stringify(answer)}`);
  }
  const trace = await page.evaluate(async () => (await fetch('/trace?seconds=1')).status);
  check(trace === 403, `a recording: ${trace}`);
  check((await machine.json('ps')).domains.some((each) => each.id === id), 'it still runs');
  check(page.errors.length === 0, page.errors.join('\n'));
  await page.context().close();
  await stop(job);
});

test('everything can be reached by keys', async ({ page, machine, steer }) => {
  const { job } = await started(machine, 'sleep', () => machine.start('--on', 'host:3', '/bin/sleep', '--', '600'));
  await page.goto(`${steer.address}/#/`);
  await page.waitForSelector('article.node');
  const at = (what) => eventually(what, async () => page.url().includes(what));
  for (const [key, where] of [['d', '#/domains'], ['c', '#/channels'], ['r', '#/memory'], ['n', '#/names'], ['e', '#/events'], ['t', '#/trace'], ['b', '#/results'], ['m', '#/']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await at(where);
  }
  await page.waitForSelector('article.node .name');
  await page.keyboard.press('ArrowDown');
  check((await page.evaluate(() => document.activeElement.className)).includes('name'), 'an arrow goes to a node');
  await page.keyboard.press('Enter');
  await at('#/node/');
  await page.keyboard.press('Escape');
  await eventually('the map', async () => /#\/$/.test(page.url()));
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open] >> text=Keys');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  await page.waitForSelector('tbody tr >> nth=2');
  await page.keyboard.press('/');
  await page.keyboard.type('sleep');
  await eventually('three rows', async () => (await page.locator('tbody tr').count()) === 3);
  const sleepers = (await machine.json('ps')).domains.filter((each) => each.program === 'sleep').map((each) => each.id);
  await page.keyboard.press('Enter');
  await page.keyboard.press('j');
  check(await page.evaluate(() => document.activeElement.matches('tbody tr')), 'a row has the focus');
  await page.keyboard.press('Enter');
  // Rows may change places between two keys: any of the three will do.
  await eventually('the page of a sleeper', async () => sleepers.some((id) => page.url().endsWith(`#/domain/${id}`)));
  await page.waitForSelector('.deeds button');
  await page.keyboard.press('p');
  await page.waitForSelector('.head .state-badge[data-state=paused]');
  await page.keyboard.press('p');
  await page.waitForSelector('.head .state-badge[data-state=runs]');
  await page.keyboard.press('Escape');
  await at('#/domains');
  // From the beginning of the page the first stop leads past the navigation.
  await page.reload();
  await page.waitForSelector('tbody tr');
  await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.activeElement.closest('.skip, .brand, main') !== null), 'Tab begins at the top or in the content');
  await stop(job);
});

test('of two steps at once the last is shown, once, and has the focus', async ({ page, steer }) => {
  await page.goto(`${steer.address}/#/domains`);
  await page.waitForSelector('main table caption >> text=Domains', { state: 'attached' });
  await page.evaluate(() => {
    const main = document.querySelector('main');
    const clear = main.replaceChildren;
    window.made = 0;
    main.replaceChildren = (...nodes) => {
      window.made += 1;
      clear.apply(main, nodes);
    };
    // Both before the event of the first comes.
    for (const key of ['g', 'b', 'g', 'm']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  });
  await page.waitForSelector('article.node .name');
  await page.keyboard.press('ArrowDown');
  const focused = () => page.evaluate(() => document.activeElement.className);
  check((await focused()).includes('name'), `an arrow goes to a node, and not to ${await focused()}`);
  // Events of the steps that are still queued come before the timer and the frame.
  await page.evaluate(() => new Promise((resolve) => { setTimeout(() => requestAnimationFrame(resolve), 100); }));
  check((await focused()).includes('name'), 'the node keeps the focus');
  const made = await page.evaluate(() => window.made);
  check(made === 1, `${made} views were made`);
});

test('a view that is left does not take the address back', async ({ page, steer }) => {
  await page.goto(`${steer.address}/#/domains`);
  await page.waitForSelector('main th button');
  await page.evaluate(() => {
    location.hash = '#/events';
    // The step's event is still to come, and what is pressed is written into the address.
    document.querySelector('main th button').click();
  });
  await page.waitForSelector('main table caption >> text=Events', { state: 'attached' });
  check(page.url().endsWith('#/events'), `the address is ${page.url()}`);
});

test('a job is started on two nodes, with an environment and files, and all of it is stopped', async ({ page, machine, steer }) => {
  await page.goto(`${steer.address}/#/`);
  await page.waitForSelector('article.node');
  await page.keyboard.press('s');
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await eventually('images', async () => (await dialog.locator('#image option').count()) > 1);
  const value = await dialog.locator('#image option', { hasText: 'communities' }).getAttribute('value');
  await dialog.locator('#image').selectOption(value);
  // Workers wait a minute for a master, which never comes: three of them are there at the same time.
  await dialog.locator('#arguments').fill('worker --connect job/no-master --number 0');
  await dialog.locator('summary').click();
  await dialog.getByLabel('host', { exact: true }).fill('2');
  await dialog.getByLabel('arm0', { exact: true }).fill('1');
  await dialog.getByLabel('Environment').fill('COLOUR=blue');
  await dialog.getByLabel('Files of the host that the job may use').fill(`${machine.folder}:rw`);
  await picture(page, 'start-job');
  await dialog.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/#\/domain\//);
  const job = page.url().split('/').at(-1);
  const ranks = async () => (await machine.json('ps')).domains.filter((each) => each.parent === job);
  const found = await eventually('three domains', async () => {
    const all = await ranks();
    return all.length === 3 ? all : null;
  });
  check(found.map((each) => each.node).sort().join() === 'arm0,host,host', JSON.stringify(found));
  const onHost = found.find((each) => each.node === 'host');
  const environment = readFileSync(`/proc/${onHost.pid}/environ`, 'utf8').split('\0');
  check(environment.includes('TOMBOLO_SIZE=3') && environment.includes('COLOUR=blue'), environment.join(' '));
  check(environment.some((each) => each.startsWith('TOMBOLO_FILES=')), 'files are granted');
  await page.getByRole('button', { name: 'Stop all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop all' }).click();
  await page.waitForSelector('.head .state-badge[data-state=failed]');
  await eventually('the end of all', async () => (await ranks()).length === 0);
}, { seconds: 300 });

test('dark and light, and what was chosen is remembered', async ({ browser, steer }) => {
  const page = await open(browser, { colorScheme: 'light' });
  await page.goto(steer.url);
  await page.waitForSelector('article.node');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  check(await theme() === 'light', 'as the system has it');
  await picture(page, 'map-light');
  await page.getByRole('button', { name: 'Dark theme' }).click();
  check(await theme() === 'dark', 'switched');
  await page.reload();
  await page.waitForSelector('article.node');
  check(await theme() === 'dark', 'remembered');
  check(page.errors.length === 0, page.errors.join('\n'));
  await page.context().close();
});

test('views fit a phone, and what is pressed is large enough', async ({ browser, machine, steer }) => {
  const { job, id } = await started(machine, 'sleep', () => machine.start('--on', 'host', '/bin/sleep', '--', '600'));
  const page = await open(browser, PHONE);
  await page.goto(steer.url);
  await page.waitForSelector('article.node');
  for (const [index, view] of views(id).entries()) {
    await show(page, view);
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
    check(wide <= 360, `${view} is ${wide} wide`);
    const small = await page.evaluate(() => [...document.querySelectorAll('button, select, nav.places a')].filter((node) => node.offsetParent && node.getBoundingClientRect().height < 43.5).map((node) => `${node.textContent || node.getAttribute('aria-label')} ${node.getBoundingClientRect().height}`));
    check(small.length === 0, `${view}: too small to press: ${small.join(', ')}`);
    await picture(page, `phone-${index}`);
  }
  check(page.errors.length === 0, page.errors.join('\n'));
  await page.context().close();
  await stop(job);
});

test('axe finds nothing on any view, dark or light', async ({ browser, machine, steer }) => {
  const { job, id } = await started(machine, 'sh', () => machine.start('--on', 'host', '/bin/sh', '--', '-c', 'echo hello; sleep 600'));
  const found = [];
  // Themes differ in their colours alone. Without motion, for a colour on its way to another is neither.
  for (const [colorScheme, rules] of [['dark', null], ['light', ['color-contrast', 'link-in-text-block']]]) {
    const page = await open(browser, { colorScheme, reducedMotion: 'reduce' });
    await page.goto(steer.url);
    await page.waitForSelector('article.node');
    for (const view of views(id)) {
      await show(page, view);
      // axe passes over what is folded.
      await page.evaluate(() => document.querySelectorAll('main details').forEach((node) => { node.open = true; }));
      for (const sentence of await violations(page, rules)) found.push(`${colorScheme} ${view}: ${sentence}`);
    }
    await page.keyboard.press('s');
    await page.waitForSelector('#node option >> text=suggested', { state: 'attached' });
    for (const sentence of await violations(page, rules)) found.push(`${colorScheme} start: ${sentence}`);
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    for (const sentence of await violations(page, rules)) found.push(`${colorScheme} help: ${sentence}`);
    await page.context().close();
  }
  await stop(job);
  check(found.length === 0, [...new Set(found)].join('\n'));
}, { seconds: 360 });

test('results of benchmarks are drawn, and can be read', async ({ page, steer }) => {
  await page.goto(`${steer.address}/#/results`);
  await page.waitForSelector('.plotted svg');
  for (const value of await page.locator('main select option').evaluateAll((options) => options.map((option) => option.value))) {
    await page.locator('main select').selectOption(value);
    await eventually(`drawings of ${value}`, async () => (await page.locator('.plotted svg').count()) > 2);
    const numbers = await page.locator('.plot-svg').evaluateAll((drawings) => drawings.map((drawing) => drawing.outerHTML).filter((said) => /NaN|Infinity|undefined/.test(said)).length);
    check(numbers === 0, `${value}: ${numbers} drawings with what is no number`);
    await page.locator('details summary').first().click();
    await eventually('a table beside it', async () => (await page.locator('details[open] table tbody tr').count()) > 0);
  }
  await picture(page, 'results', { fullPage: true });
});

test('the machine is recorded, and the recording can be taken away', async ({ page, machine, steer }) => {
  const job = again(() => machine.start('--on', 'host', path.join(images, 'communities.tbi'), '--', '--rmat', '19', '--workers', 'host:1,arm0:1'));
  await eventually('messages', async () => (await machine.json('channels')).channels?.length > 0);
  await page.goto(`${steer.address}/#/trace`);
  await page.fill('#seconds', '1');
  const record = page.getByRole('button', { name: 'Record' });
  const progress = page.locator('progress[aria-label=Recording]');
  // A second may pass without a message: a job reads its graph first.
  const bytes = await eventually('a recording of messages', async () => {
    await eventually('a button', async () => await record.getAttribute('aria-disabled') === null);
    await record.click();
    await progress.waitFor();
    await progress.waitFor({ state: 'hidden' });
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
    const recorded = readFileSync(await file.path());
    return recorded.length > 1000 ? recorded : null;
  }, 180);
  await job.stop();
  check(bytes[0] === 0x0a, `the recording begins with ${bytes[0]}`);
  // Perfetto's own page is not there in a test; one that answers as it does stands in for it.
  await page.context().route('https://ui.perfetto.dev/**', (route) => route.fulfill({
    contentType: 'text/html',
    body: '<script>addEventListener("message", (e) => { if (e.data === "PING") e.source.postMessage("PONG", e.origin); else if (e.data.perfetto) document.title = e.data.perfetto.title + " " + e.data.perfetto.buffer.byteLength; })</script>',
  }));
  const [other] = await Promise.all([page.context().waitForEvent('page'), page.getByRole('button', { name: 'Open in Perfetto' }).click()]);
  await eventually('the recording there', async () => (await other.title()).endsWith(` ${bytes.length}`));
  await other.close();
}, { seconds: 300 });

test('the virtual machine dies, the page says why, and a button brings it back', async ({ page, machine, steer }) => {
  await page.goto(`${steer.address}/#/node/arm0`);
  await page.waitForSelector('.facts');
  const pid = Number((await eventually('its process', () => fact(page, 'Process'))).replace(/\D/g, ''));
  check(readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('qemu'), 'it is the virtual machine');
  await go(page, '#/');
  await page.waitForSelector('article.node[data-phase=up] >> nth=1');
  process.kill(pid, 'SIGKILL');
  const card = page.locator('article.node[data-phase=down]');
  await card.waitFor();
  await eventually('the reason on the card', async () => {
    const said = await card.innerText();
    return said.includes('Down') && /SIGKILL|signal 9|killed/i.test(said);
  });
  await eventually('the head says it too', async () => (await text(page, '.pill')) === '1 of 2 up');
  await picture(page, 'map-down');
  await page.waitForSelector('.below >> text=node down');
  await card.locator('a.name').click();
  await page.waitForSelector('.alert >> text=down');
  await picture(page, 'node-down');
  await page.getByRole('button', { name: 'Restart' }).click();
  await eventually('up again', async () => (await fact(page, 'Phase')).startsWith('up'), 120);
  await eventually('up for others too', async () => (await machine.node('arm0')).state === 'up');
  await go(page, '#/');
  await page.waitForSelector('article.node[data-phase=up] >> nth=1');
}, { seconds: 300 });

test('a server that ends and comes back with another token is told from one that is gone', async ({ browser, machine }) => {
  const first = await machine.web('--steer');
  const page = await open(browser);
  page.expected.push(/ERR_CONNECTION_REFUSED|401|WebSocket/);
  await page.goto(first.url);
  await page.waitForSelector('article.node');
  await first.stop();
  await page.waitForSelector('.banner:not([hidden]) >> text=No connection');
  check((await page.locator('article.node').count()) === 2, 'what was seen last stays');
  check(await page.evaluate(() => 'stale' in document.documentElement.dataset), 'and is grey');
  check(await page.locator('.top button.primary').getAttribute('aria-disabled') === 'true', 'and cannot be changed');
  await picture(page, 'no-connection');
  const second = await machine.web('--port', new URL(first.address).port);
  await page.waitForSelector('.banner:not([hidden]) >> text=another token');
  await page.goto(second.url);
  await page.waitForSelector('article.node');
  check(await page.locator('.banner').isHidden(), 'the new link opens it');
  await second.stop();
  await page.context().close();
});

test('the monitor dies and comes back', async ({ page, machine, steer }) => {
  await page.goto(`${steer.address}/#/`);
  await page.waitForSelector('article.node[data-phase=up] >> nth=1');
  const { pid } = await machine.node('host');
  check(readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('tombolod'), 'it is the monitor');
  process.kill(pid, 'SIGKILL');
  await page.waitForSelector('.banner:not([hidden]) >> text=monitor is gone');
  check((await page.locator('article.node').count()) === 2, 'the map stays');
  check(await page.evaluate(() => 'stale' in document.documentElement.dataset), 'and is grey');
  await picture(page, 'monitor-gone');
  machine.isUp = false;
  await eventually('the machine up again', async () => {
    await machine.up();
    return true;
  }, 180);
  await eventually('the page live again', () => page.locator('.banner').isHidden());
  await page.waitForSelector('article.node[data-phase=up] >> nth=1');
  check(await page.evaluate(() => !('stale' in document.documentElement.dataset)), 'in colour');
}, { seconds: 360 });

const machine = new Machine(NODES);
let good = false;
const browser = await launch();
try {
  await machine.up();
  const steer = await machine.web('--steer', '--images', images, '--results', results);
  const look = await machine.web('--results', results);
  const page = await open(browser);
  await page.goto(steer.url);
  const context = { machine, steer, look, browser, page };
  page.expected.push(/net::ERR_FAILED/);
  good = await run(context, process.argv.slice(2), async (name) => {
    await picture(page, `FAILED-${name.replace(/[^a-z]+/gi, '-').slice(0, 60)}`).catch(() => {});
  });
  if (page.errors.length) {
    console.log(`the page complained:\n${page.errors.join('\n')}`);
    good = false;
  }
} finally {
  await browser.close();
  await machine.down();
  await clear();
  await machine.remove();
}
process.exitCode = good ? 0 : 1;
