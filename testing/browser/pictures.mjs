// Draws the pictures of the book: a real machine with an Arm virtual machine, on which the main job runs.
// usage: TARGET=folder node pictures.mjs [folder]

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './lib/runner.mjs';
import { Machine, clear, images } from './lib/machine.mjs';
import { launch, open } from './lib/browser.mjs';

const folder = path.resolve(process.argv[2] ?? fileURLToPath(new URL('../../docs/book/src/pictures', import.meta.url)));
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
const WIDE = { viewport: { width: 1200, height: 760 } };

mkdirSync(folder, { recursive: true });

async function keep(page, name) {
  const file = path.join(folder, `${name}.webp`);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 88 });
  const bytes = Buffer.from(data, 'base64');
  writeFileSync(file, bytes);
  console.log(`${file}: ${Math.round(bytes.length / 1024)} KiB`);
}

const machine = new Machine(NODES, 'default');
const browser = await launch();
try {
  await machine.up();
  const web = await machine.web('--steer', '--images', images, '--results', results);
  const job = machine.start('--on', 'host', path.join(images, 'communities.tbi'), '--', '--rmat', '19', '--workers', 'host:1,arm0:1');
  const dark = await open(browser, { ...WIDE, colorScheme: 'dark' });
  const light = await open(browser, { ...WIDE, colorScheme: 'light' });
  for (const page of [dark, light]) await page.goto(web.url);
  // A history worth the name, and then traffic.
  await dark.waitForTimeout(8_000);
  await eventually('traffic', async () => /[kMG]B\/s/.test(await dark.locator('.labels .label b').first().innerText()), 120);
  await keep(dark, 'map-dark');
  await keep(light, 'map-light');
  await dark.goto(`${web.address}/#/channels`);
  await dark.waitForSelector('tbody tr');
  await dark.waitForTimeout(1_500);
  await keep(dark, 'channels');
  const { id } = (await machine.json('ps')).domains.find((each) => each.program === 'communities');
  await light.goto(`${web.address}/#/domain/${id}`);
  await light.waitForSelector('.output span');
  await light.waitForTimeout(3_000);
  await keep(light, 'domain');
  await eventually('the end of the job', () => job.exitCode !== null || job.signalCode !== null, 300);
  const second = machine.start('--on', 'host', path.join(images, 'communities.tbi'), '--', '--debian');
  await eventually('the end of the second', () => second.exitCode !== null, 300);
  const last = await eventually('its figure', async () => {
    await light.goto(`${web.address}/#/`);
    await light.waitForSelector('.jobs a');
    return light.locator('.jobs a').first().getAttribute('href');
  });
  await dark.setViewportSize({ width: 1200, height: 1120 });
  await dark.goto(`${web.address}/${last}`);
  await dark.locator('.graph .community').nth(5).waitFor();
  await dark.waitForTimeout(500);
  await keep(dark, 'job');
  const phone = await open(browser, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
  await phone.goto(web.url);
  await phone.waitForSelector('article.node[data-phase=up] >> nth=1');
  await phone.waitForTimeout(1_500);
  await keep(phone, 'phone');
} finally {
  await browser.close();
  await machine.down();
  await clear();
  await machine.remove();
}
