// The test of synthetic.mjs for an hour, or for as many minutes as given.
// usage: TARGET=folder node soak.mjs [minutes]

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(process.execPath, [fileURLToPath(new URL('synthetic.mjs', import.meta.url)), '--minutes', process.argv[2] ?? '60'], { stdio: 'inherit' });
process.exitCode = status ?? 1;
