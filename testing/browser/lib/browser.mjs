// Chromium as Debian has it, and what every page of these tests is held to: no error, no refused script or style, no dialog.

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { target } from './machine.mjs';

const program = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((file) => file && existsSync(file));
if (!program) throw new Error('there is no chromium: scripts/setup.sh browser installs it');

/** Where pictures go, which git does not keep. */
export const pictures = path.join(target, 'browser');
mkdirSync(pictures, { recursive: true });

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export function launch() {
  // Root has no sandbox of its own to give; the pages are this project's.
  return chromium.launch({ executablePath: program, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

/** A page of a fresh context. `errors` collects what must not be. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'dark', reducedMotion: 'no-preference', ...options });
  // For work on the page: its files as they are in the tree, without building the program that has them.
  if (process.env.PAGE) await context.route('**/assets/*', (route) => route.fulfill({ path: path.join(process.env.PAGE, path.basename(new URL(route.request().url()).pathname)) }));
  const page = await context.newPage();
  page.errors = [];
  page.expected = [];
  page.on('pageerror', (error) => page.errors.push(`error in the page: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !page.expected.some((pattern) => pattern.test(message.text()))) page.errors.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => {
    page.errors.push(`a dialog of the browser: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.setDefaultTimeout(15_000);
  return page;
}

/** Takes a picture to look at. */
export function picture(page, name, options = {}) {
  return page.screenshot({ path: path.join(pictures, `${name}.png`), ...options });
}

/** Violations of accessibility that axe finds, as sentences: of all its rules, or of those that are named. */
export async function violations(page, rules = null) {
  // By the debugger and not as a script of the page, which its policy forbids.
  await page.evaluate(axe);
  const runOnly = rules ? { type: 'rule', values: rules } : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };
  const { violations: found } = await page.evaluate((only) => globalThis.axe.run(document, { resultTypes: ['violations'], runOnly: only }), runOnly);
  return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.target.join(' ')} (${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ''})`).join('; ')}`);
}
