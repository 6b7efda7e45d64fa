// Installs the built package in an empty project, with Bun and Deno from npm, and runs runtime.mjs there with each, and with Node.
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { directory, serveKind } from './servers.mjs';

const project = directory();
const run = (program, args, cwd = project) => execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], timeout: 120_000 }).trim();

const packed = run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', project], fileURLToPath(new URL('..', import.meta.url)));
run('npm', ['init', '--yes']);
run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', join(project, packed.split('\n').at(-1)), 'bun', 'deno']);
copyFileSync(new URL('runtime.mjs', import.meta.url), join(project, 'runtime.mjs'));

const stops = [];
const { port } = await serveKind({ after: stop => stops.push(stop) }, 'memory');
const bin = name => join(project, 'node_modules/.bin', name);
try {
  for (const [program, ...args] of [[process.execPath], [bin('bun')], [bin('deno'), 'run', '--allow-all']]) {
    console.log(`${run(program, ['--version']).split('\n')[0]} ${program.split('/').at(-1)}: ${run(program, [...args, 'runtime.mjs', String(port)])}`);
  }
} finally {
  for (const stop of stops) await stop();
}
