// Makes the same calls with one of several clients at the server at HOST PORT, and prints a transcript of what
// they return, to compare it between servers. Parts that restart the server come last, and only for "durable".
// It prints "restart" to request that, and waits for a line that says that this was done.
'use strict'

const crypto = require('crypto')
const readline = require('readline')
const { once } = require('events')
const { setTimeout: sleep } = require('timers/promises')

const LEDGER = 500 // how many jobs go from two producers to two consumers
const [name, durability, host, port] = process.argv.slice(2)

// clients has for each client how to connect, how a method is called, and in which order put takes what it wants.
const clients = {
  fivebeans: {
    async open () {
      const Client = require('fivebeans').client
      const c = new Client(host, port)
      c.connect()
      await once(c, 'connect')
      return c
    },
    call: (c, method, ...args) => new Promise((resolve, reject) => {
      c[method](...args, (err, ...got) => err ? reject(err) : resolve(got))
    }),
    method: command => command === 'delete' ? 'destroy' : command.replaceAll('-', '_'),
    put: (body, pri, delay, ttr) => [pri, delay, ttr, body],
    close: c => c.end()
  },
  nodestalker: {
    open: async () => require('nodestalker').Client(`${host}:${port}`),
    call: (c, method, ...args) => new Promise((resolve, reject) => {
      c[method](...args).onEnd((err, got) => err ? reject(err) : resolve(got))
    }),
    method: command => command === 'delete' ? 'deleteJob' : command.replaceAll('-', '_'),
    put: (body, pri, delay, ttr) => [body, pri, delay, ttr],
    close: c => c.disconnect()
  },
  beanstalkd: {
    open: async () => {
      const Client = require('beanstalkd').default
      return new Client(host, port).connect()
    },
    call: (c, method, ...args) => c[method](...args),
    method: camelCase,
    put: (body, pri, delay, ttr) => [pri, delay, ttr, body],
    close: c => c.quit()
  },
  'node-beanstalk': {
    async open () {
      const { Client } = require('node-beanstalk')
      const c = new Client({ host, port: Number(port) })
      c.on('error', () => {})
      await c.connect()
      return c
    },
    call: (c, method, ...args) => c[method](...args),
    method: camelCase,
    put: (body, pri, delay, ttr) => [body, ttr, pri, delay],
    close: c => c.disconnect()
  }
}
const client = clients[name]

function camelCase (command) {
  return command.replace(/-./g, letter => letter[1].toUpperCase())
}

// shown is a result in the transcript: of a large body its hash.
function shown (got) {
  return JSON.stringify(got, (_, value) => {
    const text = value && value.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value
    return typeof text === 'string' && text.length > 100 ? `${text.length} bytes ${crypto.createHash('sha256').update(text).digest('hex')}` : text
  })
}

// ask makes a call, prints what it returns or says, and returns it.
async function ask (c, command, ...args) {
  const method = client.method(command)
  if (!c[method]) return console.log(command, '-> has no', method)
  const what = `${command} ${args.map(arg => shown(arg)).join(' ')} ->`
  try {
    const got = await client.call(c, method, ...args)
    console.log(what, shown(got))
    return got
  } catch (err) {
    console.log(what, 'says', err.message ?? String(err))
  }
}

// put returns the id of the new job.
async function put (c, body, pri = 9, delay = 0, ttr = 60) {
  return idOf(await ask(c, 'put', ...client.put(body, pri, delay, ttr)))
}

const idOf = got => got && (got.id ?? [got].flat()[0])

// page prints some values of a page.
async function page (c, command, args, ...keys) {
  const got = await client.call(c, client.method(command), ...args).catch(err => err.message ?? String(err))
  const figures = [got].flat()[0]
  console.log(command, ...args, '->', figures && typeof figures === 'object' ? keys.map(key => `${key} ${figures[key]}`).join(', ') : figures)
}

const jobPage = (c, id) => page(c, 'stats-job', [id], 'tube', 'state', 'pri', 'delay', 'ttr', 'reserves', 'timeouts', 'releases', 'buries', 'kicks')

// queue is a connection that uses and watches one tube.
async function queue (tube) {
  const c = await client.open()
  await ask(c, 'use', tube)
  await ask(c, 'watch', tube)
  await ask(c, 'ignore', 'default')
  return c
}

async function life (c) {
  for (const command of ['list-tube-used', 'list-tubes-watched', 'list-tubes']) await ask(c, command)
  const id = await put(c, 'a life', 7)
  await jobPage(c, id)
  for (const command of ['peek-ready', 'peek-delayed', 'peek-buried']) await ask(c, command)
  await ask(c, 'peek', id)
  await ask(c, 'reserve')
  await ask(c, 'touch', id)
  await ask(c, 'release', id, 3, 1)
  await jobPage(c, id)
  await ask(c, 'peek-delayed')
  await ask(c, 'reserve-with-timeout', 5)
  await ask(c, 'bury', id, 5)
  await ask(c, 'peek-buried')
  await ask(c, 'kick', 10)
  await ask(c, 'kick', 10)
  await ask(c, 'kick-job', id)
  await ask(c, 'reserve-with-timeout', 0)
  await jobPage(c, id)
  await ask(c, 'delete', id)
  for (const command of ['delete', 'touch', 'peek']) await ask(c, command, id)
  await ask(c, 'release', id, 1, 0)
  await ask(c, 'bury', id, 1)
  await page(c, 'stats-job', [id])
  await ask(c, 'ignore', 'life')
}

async function tubes (c) {
  await put(c, 'first')
  const least = await put(c, 'least', 1)
  await ask(c, 'pause-tube', 'tubes', 2)
  await ask(c, 'reserve-with-timeout', 0)
  await ask(c, 'reserve-with-timeout', 5)
  await page(c, 'stats-tube', ['tubes'], 'name', 'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved', 'total-jobs', 'current-using', 'current-watching', 'cmd-pause-tube', 'pause')
  await page(c, 'stats', [], 'current-jobs-ready', 'current-jobs-reserved', 'total-jobs', 'max-job-size', 'current-connections', 'draining')
  await page(c, 'stats-tube', ['nowhere'])
  await ask(c, 'delete', least)
  await ask(c, 'delete', idOf(await ask(c, 'reserve')))
}

async function bodies (c) {
  for (const body of ['\r\n', 'a\r\ndelete 1\r\n\r\n', 'j\u00fcrgen', 'x'.repeat(65000)]) {
    await put(c, body)
    await ask(c, 'delete', idOf(await ask(c, 'reserve-with-timeout', 5)))
  }
}

async function waiting (c) {
  await ask(c, 'reserve-with-timeout', 1)
  const id = await put(c, 'soon', 9, 0, 2)
  await ask(c, 'reserve')
  await sleep(1300)
  await ask(c, 'reserve-with-timeout', 1)
  await ask(c, 'touch', id)
  await sleep(2300)
  await ask(c, 'list-tube-used') // beanstalkd may notice only now
  await ask(c, 'delete', idOf(await ask(c, 'reserve-with-timeout', 5)))
}

// ledger: each of many jobs is done once.
async function ledger () {
  const done = []
  const quiet = async (work) => {
    const c = await client.open()
    const call = (command, ...args) => client.call(c, client.method(command), ...args)
    await call('use', 'ledger')
    await call('watch', 'ledger')
    await work(call)
    await client.close(c)
  }
  const produce = first => quiet(async call => {
    for (let n = first; n < LEDGER; n += 2) await call('put', ...client.put(String(n), n % 7, 0, 60))
  })
  const consume = () => quiet(async call => {
    while (done.length < LEDGER - 1) { // the other one may get the last
      const got = await call('reserve-with-timeout', 1).catch(() => null)
      if (!got) continue
      await call('delete', idOf(got))
      done.push(String(got.payload ?? got.data ?? got[1]))
    }
  })
  await Promise.all([produce(0), produce(1), consume(), consume()])
  console.log('done', done.length, 'different', new Set(done).size)
}

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function restarted (c) {
  const buried = await put(c, 'buried', 1)
  await ask(c, 'reserve')
  await ask(c, 'bury', buried, 6)
  await put(c, 'held', 1)
  await ask(c, 'reserve')
  await put(c, 'ready', 0) // it comes first: what a killed instance held may take a while
  const delayed = await put(c, 'delayed', 3, 100)
  if (c.on) c.on('error', () => {})
  console.log('restart')
  await input.next()
  c = await queue('restarted')
  for (const id of [buried, delayed]) await page(c, 'stats-job', [id], 'tube', 'state', 'pri', 'delay', 'ttr')
  for (let i = 0; i < 2; i++) await ask(c, 'delete', idOf(await ask(c, 'reserve-with-timeout', 15)))
  await ask(c, 'delete', buried)
  await ask(c, 'delete', delayed)
  await ask(c, 'delete', await put(c, 'new'))
  await client.close(c)
}

async function main () {
  for (const part of [life, tubes, bodies, waiting]) {
    console.log('---', part.name)
    const c = await queue(part.name)
    await part(c)
    await client.close(c)
  }
  console.log('--- ledger')
  await ledger()
  for (const how of durability === 'durable' ? ['politely', 'by force'] : []) {
    console.log('--- restart', how)
    await restarted(await queue('restarted'))
  }
}

// A reply that a client never notices ends the program, too: nothing is left to wait for.
process.exitCode = 1
main().then(() => process.exit(0), err => {
  console.log('FAILED:', err)
  process.exit(1)
})
