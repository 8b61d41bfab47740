// Debian's Chromium, and pages that record errors, refused scripts and styles, and dialogs, which no test may cause.

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { target } from './machine.mjs';

const program = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((file) => file && existsSync(file));
if (!program) throw new Error('there is no chromium: scripts/setup.sh browser installs it');

/** Folder for screenshots, which is not committed. */
export const pictures = path.join(target, 'browser');
mkdirSync(pictures, { recursive: true });

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export function launch() {
  // Chromium has no sandbox for root; the pages are this project's own.
  return chromium.launch({ executablePath: program, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

/** A page in a new context. Its `errors` must stay empty; messages that match one of `expected` are not errors. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'dark', reducedMotion: 'no-preference', ...options });
  // For work on the page: serves its files from the tree, without rebuilding the program that embeds them.
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
  // For loaded machines: idle ones need a tenth.
  page.setDefaultTimeout(60_000);
  return page;
}

/** Takes a screenshot for people to look at. */
export function picture(page, name, options = {}) {
  return page.screenshot({ path: path.join(pictures, `${name}.png`), ...options });
}

/** The accessibility violations that axe finds, as sentences: of the named rules, or of all. */
export async function violations(page, rules = null) {
  // Evaluated by the debugger, since the page's policy forbids scripts from elsewhere.
  await page.evaluate(axe);
  const runOnly = rules ? { type: 'rule', values: rules } : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };
  const { violations: found } = await page.evaluate((only) => globalThis.axe.run(document, { resultTypes: ['violations'], runOnly: only }), runOnly);
  return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.target.join(' ')} (${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ''})`).join('; ')}`);
}
