// An hour of updates of a thousand nodes, or as long as it is told: the same as the short run of crowd.mjs, longer.
// usage: TARGET=folder node soak.mjs [minutes]

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(process.execPath, [fileURLToPath(new URL('crowd.mjs', import.meta.url)), '--minutes', process.argv[2] ?? '60'], { stdio: 'inherit' });
process.exitCode = status ?? 1;
