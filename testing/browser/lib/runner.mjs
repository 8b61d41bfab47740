// Runs tests one after the other and reports in the format of `cargo test`, which `cargo xtask ci` counts.

const tests = [];

/** Declares a test. `work` receives the context of `run`. */
export function test(name, work, { seconds = 240 } = {}) {
  tests.push({ name, work, seconds });
}

/** Throws `sentence` as an error unless `holds`. */
export function check(holds, sentence) {
  if (!holds) throw new Error(sentence);
}

/** Waits until `look` returns something true, and returns it. The deadline is for loaded machines: idle ones need a tenth. */
export async function eventually(what, look, seconds = 60) {
  const until = Date.now() + seconds * 1000;
  let last;
  for (;;) {
    try {
      last = await look();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > until) throw new Error(`not within ${seconds} s: ${what}${last instanceof Error ? ` (${last.message})` : ''}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function limited(promise, seconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Runs the tests whose names contain one of `wanted`, or all; calls `failed(name, error)` for each that fails. Resolves to whether all passed. */
export async function run(context, wanted, failed) {
  const chosen = tests.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
  console.log(`\nrunning ${chosen.length} tests`);
  const lost = [];
  for (const { name, work, seconds } of chosen) {
    const began = Date.now();
    try {
      await limited(work(context), seconds);
      console.log(`test ${name} ... ok (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (error) {
      lost.push(name);
      console.log(`test ${name} ... FAILED (${((Date.now() - began) / 1000).toFixed(1)} s)\n${error.stack ?? error}`);
      await failed(name, error);
    }
  }
  console.log(`\ntest result: ${lost.length || chosen.length === 0 ? 'FAILED' : 'ok'}. ${chosen.length - lost.length} passed; ${lost.length} failed; 0 ignored;`);
  return lost.length === 0 && chosen.length > 0;
}
