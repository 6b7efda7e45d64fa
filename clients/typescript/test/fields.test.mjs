// The options of puts and schedules and the tags that the server knows are the same. Policies and groups take any tags.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { buryText, kickWord, releaseText, touchTags } from '../dist/esm/commands.js';
import { putLine } from '../dist/esm/put.js';
import { setSchedule } from '../dist/esm/schedule.js';
import { redstalkd } from './servers.mjs';

/** An object with a value for each option that a function reads. */
function every(read) {
  const options = {};
  read(new Proxy({}, { get: (_, name) => (options[name] = name === 'retry' ? [1] : '1') }));
  return options;
}

const tagsIn = line => [...line.matchAll(/ ([a-z-]+):/g)].map(match => match[1]);

test('the options of a put and of a schedule are the tags of the server', () => {
  const fields = JSON.parse(execFileSync(redstalkd, ['--fields'], { encoding: 'utf8' }));
  const known = command => new Set(fields.filter(field => field.in.includes(command)).map(field => field.name));
  const put = every(options => putLine(0, options));
  assert.deepEqual(new Set(tagsIn(putLine(0, put).line)), known('put'));
  const { at, onDuplicate, ...ofJobs } = put; // a schedule has neither
  const times = every(options => setSchedule('name', 'tube', '', options));
  assert.deepEqual(new Set(tagsIn(setSchedule('name', 'tube', '', { ...ofJobs, ...times }).line)), known('set-schedule'));
  assert.deepEqual(new Set(tagsIn(releaseText({ reason: 'x', failure: false })[0])), known('release'));
  assert.deepEqual(new Set(tagsIn(buryText({ reason: 'x' })[0])), known('bury'));
  assert.deepEqual(new Set(tagsIn(touchTags({ progress: 'x' })[0])), known('touch'));
  for (const command of ['kick', 'kick-job', 'replay-job']) assert.deepEqual(new Set([kickWord({ keepCheckpoint: true })[0].trim()]), known(command));
});
