// The page of a machine with a thousand nodes and ten thousand domains: how soon it is usable, and whether its memory stays flat.
// usage: TARGET=folder node synthetic.mjs [--minutes N]

import { check, eventually, run, test } from './lib/runner.mjs';
import { SyntheticMachine, clear } from './lib/machine.mjs';
import { launch, open, picture, violations } from './lib/browser.mjs';

const at = process.argv.indexOf('--minutes');
const minutes = at < 0 ? 1 : Number(process.argv[at + 1]);

/** The most that a page may take until it is usable, in ms. The aim is a second; the margin is for busy hosts. */
const USABLE_MOST_MS = 5_000;
/** The most that the heap may grow per minute after warm-up, in bytes. */
const GROWTH_MOST = 1.5e6;

const count = (page, selector) => page.locator(selector).count();

/** Time from navigation until `ready` holds, by the page's own clock. */
async function usable(browser, url, hash, ready) {
  const page = await open(browser);
  // The link sets the cookie.
  await page.goto(url);
  await page.waitForSelector('.pill[data-state=good], .pill[data-state=part]');
  await page.goto('about:blank');
  await page.addInitScript({
    content: `{
      const ready = ${ready};
      const look = () => { if (document.documentElement && ready()) globalThis.usable = performance.now(); else requestAnimationFrame(look); };
      addEventListener('DOMContentLoaded', look);
    }`,
  });
  const { origin } = new URL(url);
  await page.goto(`${origin}/${hash}`);
  await page.waitForFunction(() => globalThis.usable !== undefined, null, { timeout: 30_000 });
  const took = await page.evaluate(() => globalThis.usable);
  check(page.errors.length === 0, page.errors.join('\n'));
  return { page, took };
}

/** Waits until all domains have been started, so that starting them is not measured. */
async function populated(browser, url) {
  const page = await open(browser);
  await page.goto(url);
  await page.waitForSelector('.pill[data-state=good], .pill[data-state=part]');
  await page.goto(`${new URL(url).origin}/#/domains`);
  await page.waitForFunction(() => /of 1\d,\d{3}/.test(document.querySelector('.where')?.textContent ?? ''), null, { timeout: 60_000 });
  await page.context().close();
}

/** Size of the heap after garbage collection, in bytes. */
async function heap(session) {
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize;
}

/** Growth per minute by least squares. */
function slope(points) {
  const mean = (list) => list.reduce((sum, each) => sum + each, 0) / list.length;
  const [x, y] = [mean(points.map(([time]) => time)), mean(points.map(([, size]) => size))];
  return points.reduce((sum, [time, size]) => sum + (time - x) * (size - y), 0) / points.reduce((sum, [time]) => sum + (time - x) ** 2, 0);
}

test('a map of a thousand nodes', async ({ browser, web }) => {
  const { page, took } = await usable(browser, web.url, '#/', () => /^1,0\d\d nodes/.test(document.querySelector('.pages .where')?.textContent ?? '') && document.querySelector('canvas')?.width > 300);
  console.log(`figure: the map of 1,000 nodes can be used after ${took.toFixed(0)} ms`);
  check(took < USABLE_MOST_MS, `usable only after ${took} ms`);
  await page.locator('.field').focus();
  await page.keyboard.press('ArrowRight');
  await eventually('a node said aloud', async () => /core/.test(await page.locator('#field-option').textContent()));
  await picture(page, 'synthetic-map');
  const found = await violations(page);
  check(found.length === 0, found.join('\n'));
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/node\//);
  await page.waitForSelector('.corerow');
  await page.context().close();
});

test('a list of ten thousand domains', async ({ browser, web }) => {
  const { page, took } = await usable(browser, web.url, '#/domains', () => document.querySelectorAll('tbody tr').length >= 100 && /of 1\d,\d{3}/.test(document.querySelector('.where')?.textContent ?? ''));
  console.log(`figure: the list of 10,000 domains can be used after ${took.toFixed(0)} ms`);
  check(took < USABLE_MOST_MS, `usable only after ${took} ms`);
  check((await count(page, 'tbody tr')) === 100, 'a page of it');
  const first = await page.locator('tbody tr a').first().innerText();
  await page.keyboard.press(']');
  await eventually('the next page', async () => (await page.locator('.where').innerText()).startsWith('101–200'));
  await eventually('other rows', async () => (await page.locator('tbody tr a').first().innerText()) !== first);
  await page.getByRole('button', { name: 'Load' }).click();
  await eventually('the first page', async () => (await page.locator('.where').innerText()).startsWith('1–100'));
  await page.keyboard.press('/');
  await page.keyboard.type('no such program');
  await page.waitForSelector('text=Nothing matches');
  await picture(page, 'synthetic-domains');
  await page.context().close();
});

test(`memory stays flat over ${minutes} min`, async ({ browser, web }) => {
  const page = await open(browser);
  await page.goto(web.url);
  await page.waitForSelector('.field');
  const session = await page.context().newCDPSession(page);
  const walk = async () => {
    for (const hash of ['#/domains?sort=load&desc=1', '#/events', '#/']) {
      await page.evaluate((to) => { location.hash = to; }, hash);
      await page.waitForTimeout(2000);
    }
  };
  // Warm-up: compiled code and caches.
  await walk();
  await walk();
  const points = [];
  const began = Date.now();
  while (Date.now() - began < minutes * 60_000) {
    await walk();
    const size = await heap(session);
    points.push([(Date.now() - began) / 60_000, size]);
    if (minutes > 2) console.log(`${points.at(-1)[0].toFixed(1)} min: ${(size / 1e6).toFixed(2)} MB`);
  }
  const grows = slope(points);
  console.log(`figure: the heap is ${(points.at(-1)[1] / 1e6).toFixed(2)} MB and grows by ${(grows / 1e3).toFixed(1)} kB a minute, of ${points.length} looks`);
  check(grows < GROWTH_MOST, `it grows by ${grows} bytes a minute: ${points.map(([, size]) => size)}`);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  check(nodes < 5000, `${nodes} elements`);
  check(page.errors.length === 0, page.errors.join('\n'));
  await page.context().close();
}, { seconds: minutes * 60 + 90 });

const machine = new SyntheticMachine();
let good = false;
const browser = await launch();
try {
  await machine.up();
  const web = await machine.web();
  await populated(browser, web.url);
  good = await run({ browser, web, machine }, [], async () => {
    for (const [what, child] of [['tombolo web', web.child], ['tombolo-synthetic', machine.child]]) console.log(`${what}: ${child.exitCode ?? child.signalCode ?? 'runs'} ${child.complained}`);
  });
} finally {
  await browser.close();
  await clear();
  await machine.remove();
}
process.exitCode = good ? 0 : 1;
