// Exercises the server at HOST PORT with jackd. Exits with
// 0 if everything is correct. Prints "restart" to request that the server is stopped
// and started again, and waits for a line that says that this was done.
'use strict'

const assert = require('assert')
const crypto = require('crypto')
const net = require('net')
const readline = require('readline')
const { once } = require('events')
const { setTimeout: sleep } = require('timers/promises')
const Jackd = require('jackd')

const LEDGER = 500 // how many jobs go from two producers to two consumers
const [host, port] = process.argv.slice(2)
const same = assert.deepStrictEqual

async function fails (reply, what, promise) {
  await assert.rejects(promise, err => {
    assert(err.message.endsWith(reply), `${what} says ${err.message}, want ${reply}`)
    return true
  }, what)
}

// within checks how long something took since begun, in ms: late is allowed, early
// is not.
function within (begun, least, most, what) {
  const took = performance.now() - begun
  assert(took >= least && took <= most, `${what} took ${took} ms, want ${least} to ${most}`)
}

// queue is a connection that uses and watches one tube.
async function queue (tube) {
  const client = new Jackd()
  await client.connect({ host, port: Number(port) })
  same(await client.use(tube), tube)
  same(await client.watch(tube), 2)
  same(await client.ignore('default'), 1)
  return client
}

async function closed (client) {
  client.quit()
  await once(client.socket, 'close')
}

async function reserved (client, id, body) {
  const job = await client.reserveWithTimeout(5)
  same([job.id, job.payload.toString()], [id, body])
}

// page reads a page of statistics, and list a list of names.
const page = text => Object.fromEntries(text.split('\n').filter(l => l.includes(': ')).map(l => l.split(': ')))
const list = text => text.split('\n').filter(l => l.startsWith('- ')).map(l => l.slice(2))

// job checks some values of the page of a job.
async function job (client, id, want) {
  const all = page(await client.statsJob(id))
  for (const [key, value] of Object.entries(want)) same(all[key], String(value), `${key} of job ${id} is ${all[key]}, want ${value}`)
}

async function life () {
  const c = await queue('life')
  same(await c.listTubeUsed(), 'life')
  same(list(await c.listTubesWatched()), ['life'])
  const id = await c.put('a life', { priority: 7, delay: 0, ttr: 60 })
  await job(c, id, { id, tube: 'life', state: 'ready', pri: 7, delay: 0, ttr: 60 })
  same((await c.peek(id)).payload.toString(), 'a life')
  same((await c.peekReady()).id, id)
  await fails('NOT_FOUND', 'peek-delayed', c.peekDelayed())
  await fails('NOT_FOUND', 'peek-buried', c.peekBuried())

  await reserved(c, id, 'a life')
  await job(c, id, { state: 'reserved' })
  await fails('NOT_FOUND', 'peek-ready of a reserved job', c.peekReady())
  await sleep(1100)
  assert(page(await c.statsJob(id))['time-left'] <= 58, 'the time to run does not run')
  await c.touch(id)
  assert(page(await c.statsJob(id))['time-left'] >= 59, 'touch has not touched')

  const begun = performance.now()
  await c.release(id, { priority: 3, delay: 1 })
  await job(c, id, { state: 'delayed', pri: 3, delay: 1 })
  same((await c.peekDelayed()).id, id)
  await reserved(c, id, 'a life')
  within(begun, 1000, 3000, 'the delay')
  await c.release(id, { priority: 4 })
  await job(c, id, { state: 'ready', pri: 4 })
  await buried(c, id)
  await c.delete(id)
  await gone(c, id)
  await closed(c)
}

async function buried (c, id) {
  await reserved(c, id, 'a life')
  await c.bury(id, 5)
  await job(c, id, { state: 'buried', pri: 5 })
  same((await c.peekBuried()).id, id)
  same(await c.kick(10), 1)
  same(await c.kick(10), 0)
  await reserved(c, id, 'a life')
  await c.bury(id, 5)
  await c.kickJob(id)
  await job(c, id, { state: 'ready' })
  same((await c.reserveJob(id)).payload.toString(), 'a life')
  await fails('NOT_FOUND', 'reserve-job of a reserved job', c.reserveJob(id))
  await job(c, id, { state: 'reserved', reserves: 5, releases: 2, buries: 2, kicks: 2, timeouts: 0 })
}

// gone checks that everything that can be done with a job says that there is
// none.
async function gone (c, id) {
  for (const verb of ['delete', 'release', 'bury', 'touch', 'kickJob', 'peek', 'statsJob', 'reserveJob']) {
    await fails('NOT_FOUND', verb, c[verb](id))
  }
}

// holders: only the holder of a job may change it, and releases it
// when it disconnects.
async function holders () {
  const [holder, other] = [await queue('holders'), await queue('holders')]
  const id = await holder.put('mine')
  await reserved(holder, id, 'mine')
  for (const verb of ['delete', 'release', 'bury', 'touch']) await fails('NOT_FOUND', `${verb} by another`, other[verb](id))
  same((await other.peek(id)).payload.toString(), 'mine')
  await closed(holder)
  await reserved(other, id, 'mine')
  await job(other, id, { reserves: 2, timeouts: 0, releases: 0 })
  await other.delete(id)
  await closed(other)
}

// order: the smallest priority first, of all tubes that are watched; among equals
// the first that was put.
async function order () {
  const c = await queue('order-1')
  const nine = await c.put('9', { priority: 9 })
  await c.use('order-2')
  const first = await c.put('5', { priority: 5 })
  const second = await c.put('5', { priority: 5 })
  await c.use('order-1')
  const least = await c.put('1', { priority: 1 })
  same(await c.watch('order-2'), 2)
  for (const [id, body] of [[least, '1'], [first, '5']]) {
    await reserved(c, id, body)
    await c.delete(id)
  }
  same(await c.ignore('order-2'), 1)
  await fails('NOT_IGNORED', 'ignoring the last tube', c.ignore('order-1'))
  await reserved(c, nine, '9')
  await fails('TIMED_OUT', 'reserve', c.reserveWithTimeout(0))
  await c.delete(nine)
  await c.delete(second)
  await fails('BAD_FORMAT', 'watching a bad name', c.watch('a:b'))
  await closed(c)
}

// jackd forgets the end of the line of a pause, so it is given with the delay.
const pauseTube = (c, tube, seconds) => c.pauseTube(tube, { delay: `${seconds}\r\n` })

async function pause () {
  const c = await queue('paused')
  const id = await c.put('later')
  let begun = performance.now()
  await pauseTube(c, 'paused', 2)
  same(page(await c.statsTube('paused')).pause, '2')
  await fails('TIMED_OUT', 'reserve from a paused tube', c.reserveWithTimeout(0))
  await reserved(c, id, 'later')
  within(begun, 2000, 4000, 'the pause')
  await c.release(id)
  begun = performance.now()
  await pauseTube(c, 'paused', 100)
  await fails('TIMED_OUT', 'reserve from a paused tube', c.reserveWithTimeout(0))
  await pauseTube(c, 'paused', 0)
  await reserved(c, id, 'later')
  within(begun, 0, 2000, 'resuming')
  await c.delete(id)
  await fails('NOT_FOUND', 'pause of no tube', pauseTube(c, 'nowhere', 1))
  await closed(c)
}

async function statistics () {
  const c = await queue('figures')
  const before = page(await c.stats())
  const ready = await c.put('x', { priority: 10 })
  const other = await c.put('y', { priority: 1 })
  await reserved(c, other, 'y')
  await c.bury(other, 1)
  const after = page(await c.stats())
  for (const [key, more] of Object.entries({
    'cmd-put': 2, 'cmd-bury': 1, 'cmd-stats': 1, 'total-jobs': 2, 'current-jobs-ready': 1, 'current-jobs-urgent': 1,
    'current-jobs-buried': 1, 'current-jobs-reserved': 0
  })) same(after[key] - before[key], more, `${key} grew by ${after[key] - before[key]}, want ${more}`)
  same([after['max-job-size'], after.draining], ['65535', 'false'])
  assert(after['current-connections'] >= 1 && after.version !== '')
  const tube = page(await c.statsTube('figures'))
  for (const [key, want] of Object.entries({
    name: 'figures', 'current-jobs-ready': '1', 'current-jobs-buried': '1', 'total-jobs': '2', 'current-using': '1',
    'current-watching': '1', 'current-waiting': '0', 'cmd-delete': '0'
  })) same(tube[key], want, `${key} of the tube is ${tube[key]}, want ${want}`)
  same(list(await c.listTubes()).sort(), ['default', 'figures'])
  await c.delete(ready)
  await c.delete(other)
  same(page(await c.statsTube('figures'))['cmd-delete'], '2')
  await fails('NOT_FOUND', 'stats-tube of no tube', c.statsTube('nowhere'))
  await closed(c)
}

// bodies: jackd puts texts only, and no empty ones, but must be able to take
// what others put.
async function bodies () {
  const c = await queue('bodies')
  for (const text of ['\r\n', 'a\r\ndelete 1\r\n\r\n', '\0', 'jürgen', 'x'.repeat(65535)]) await returns(c, await c.put(text), Buffer.from(text))
  await returns(c, await c.put({ some: 'thing' }), Buffer.from('{"some":"thing"}'))
  await fails('JOB_TOO_BIG', 'put of 65536 bytes', c.put('x'.repeat(65536)))

  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  const socket = net.connect({ host, port })
  socket.write('use bodies\r\n')
  await once(socket, 'data')
  for (const body of [every, Buffer.alloc(0), crypto.randomBytes(65535)]) {
    socket.write(Buffer.concat([Buffer.from(`put 0 0 60 ${body.length}\r\n`), body, Buffer.from('\r\n')]))
    const [inserted] = await once(socket, 'data')
    await returns(c, inserted.toString().match(/^INSERTED (\d+)\r\n$/)[1], body)
  }
  socket.end()
  await once(socket, 'close')
  await closed(c)
}

async function returns (c, id, body) {
  assert((await c.peek(id)).payload.equals(body), `peek: another body of ${body.length} bytes`)
  const job = await c.reserve()
  assert(job.id === id && job.payload.equals(body), `reserve: another body of ${body.length} bytes`)
  await c.delete(id)
}

async function waiting () {
  const [c, other] = [await queue('waiting'), await queue('waiting')]
  let begun = performance.now()
  await fails('TIMED_OUT', 'reserve', c.reserveWithTimeout(0))
  within(begun, 0, 900, 'no timeout')
  begun = performance.now()
  await fails('TIMED_OUT', 'reserve', c.reserveWithTimeout(1))
  within(begun, 1000, 2000, 'a timeout of 1 s')

  begun = performance.now()
  const coming = c.reserve()
  await sleep(300)
  const id = await other.put('comes late', { ttr: 3 })
  same((await coming).id, id)
  within(begun, 299, 2000, 'waiting for a job')

  // Two seconds after the reservation there is one left.
  begun = performance.now()
  await fails('DEADLINE_SOON', 'reserve', c.reserve())
  within(begun, 1700, 3000, 'DEADLINE_SOON')
  await c.touch(id)
  await fails('TIMED_OUT', 'reserve after touch', c.reserveWithTimeout(0))
  await c.delete(id)

  const slow = await c.put('too slow', { ttr: 1 })
  await reserved(c, slow, 'too slow')
  await sleep(1300)
  await c.listTubes() // beanstalkd may notice only now
  await reserved(other, slow, 'too slow')
  await job(other, slow, { reserves: 2, timeouts: 1 })
  await fails('NOT_FOUND', 'delete by the late holder', c.delete(slow))
  await other.delete(slow)
  await closed(c)
  await closed(other)
}

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// restart requests a restart of the server.
async function restart () {
  console.log('restart')
  assert(!(await input.next()).done, 'nobody has restarted the server')
}

// restarts: what is left of jobs when the server was stopped and started again.
// It is asked for twice: the server may be stopped in more than one way.
async function restarts () {
  await survive()
  await survive()
}

async function survive () {
  let c = await queue('survivors')
  const other = await c.put('buried', { priority: 1 })
  await reserved(c, other, 'buried')
  await c.bury(other, 6)
  const held = await c.put('held', { priority: 1 })
  await reserved(c, held, 'held')
  const ready = await c.put('ready\r\n\0', { priority: 2 })
  const delayed = await c.put('delayed', { priority: 3, delay: 100, ttr: 60 })
  const end = once(c.socket, 'close')
  await restart()
  await end // jackd does not connect again by itself
  assert(!c.isConnected())

  c = await queue('survivors')
  await job(c, other, { state: 'buried', pri: 6, tube: 'survivors' })
  await job(c, delayed, { state: 'delayed', pri: 3, delay: 100, ttr: 60 })
  await job(c, ready, { state: 'ready', pri: 2 })
  const bodies = new Map()
  for (let i = 0; i < 2; i++) { // a killed instance's reservations may take a while
    const { id, payload } = await c.reserveWithTimeout(15)
    bodies.set(id, payload.toString())
    await c.delete(id)
  }
  same(bodies, new Map([[held, 'held'], [ready, 'ready\r\n\0']]))
  await c.kickJob(delayed)
  await reserved(c, delayed, 'delayed')
  await c.delete(delayed)
  same(await c.kick(1), 1)
  await reserved(c, other, 'buried')
  await c.delete(other)
  const id = await c.put('new')
  assert(BigInt(id) > BigInt(delayed), 'an id was given twice')
  await c.delete(id)
  await closed(c)
}

async function ledger () {
  const times = new Map()
  const done = name => times.set(name, (times.get(name) || 0) + 1)
  let producing = 2
  const produced = async first => {
    await produce(first)
    producing--
  }
  const all = () => producing === 0
  await Promise.all([produced(0), produced(1), consume(done, all), consume(done, all)])
  for (let n = 0; n < LEDGER; n++) same(times.get(String(n)), 1, `job ${n} was done ${times.get(String(n))} times`)
  same(times.size, LEDGER)
}

async function produce (first) {
  const c = await queue('ledger')
  for (let n = first; n < LEDGER; n += 2) await c.put(String(n), { priority: n % 7, delay: n % 100 === 50 ? 1 : 0, ttr: 60 })
  await closed(c)
}

// consume returns the names of finished jobs, until there are no more and
// all are produced. It releases every fiftieth job once.
async function consume (done, produced) {
  const c = await queue('ledger')
  for (;;) {
    const last = produced()
    const got = await c.reserveWithTimeout(3).catch(err => same(err.message, 'TIMED_OUT'))
    if (!got && last) break
    if (!got) continue
    const name = got.payload.toString()
    if (name % 50 === 7 && page(await c.statsJob(got.id)).releases === '0') {
      await c.release(got.id, { priority: 0 })
      continue
    }
    await c.delete(got.id)
    done(name)
  }
  await closed(c)
}

async function main () {
  assert(host && port, 'usage: life.js HOST PORT')
  // The parts up to waiting measure seconds.
  for (const part of [life, pause, waiting, holders, order, statistics, bodies, restarts, ledger]) {
    await part()
    console.log('ok', part.name)
  }
}

// An answer that jackd never notices ends the program, too: nothing is left to
// wait for.
process.exitCode = 1
main().then(() => process.exit(0), err => {
  console.error('FAILED:', err)
  process.exit(1)
})
