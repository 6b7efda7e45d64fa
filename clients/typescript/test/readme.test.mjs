import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from './servers.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const programs = readFileSync(`${root}/README.md`, 'utf8').split('```js\n').slice(1).map(text => text.split('```')[0]);

/** Runs a program of the README on a server; within this package its own name is importable. */
async function run(t, program, until) {
  const { port } = await serve(t, 'memory:');
  const child = spawn(process.execPath, ['--input-type=module', '-e', program.replaceAll('11300', String(port))], {
    cwd: root, stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const exit = once(child, 'exit');
  let output = '';
  for await (const data of child.stdout) {
    output += data;
    if (until?.test(output)) child.kill('SIGTERM');
  }
  return [output, ...(await exit)];
}

test('the quick start runs, and ends with SIGTERM', async t => {
  assert.equal(programs.length, 4);
  assert.ok(programs[0].split('\n').filter(line => line).length < 12);
  assert.deepEqual(await run(t, programs[0], /\n/), ['welcome mail to ada@example.com\n', 0, null]);
});

test('the program of the client runs', async t => {
  const [output, code] = await run(t, programs[1]);
  assert.equal(code, 0);
  assert.match(output, /^ada \{\n(.*\n)*.*meta: \{ request: '4711' \}/);
});

test('the program of batches and schedules runs', async t => {
  const [output, code] = await run(t, programs[2]);
  assert.equal(code, 0);
  assert.match(output, /^2\n(\d{4}-\d\d-\d\dT0[01]:30:00.000Z\n){3}$/);
});

test('the program of flows runs', async t => {
  assert.deepEqual(await run(t, programs[3]), ['14\n', 0, null]);
});
