// A client of zywaited/delay-queue, and the servers that its tasks call back, made of
// nothing but the file PROTO, as any language makes them. Its arguments are PROTO, a folder
// with cert.pem and key.pem for localhost, and for each instance GRPC,HTTP,API: HOST:PORT of
// the gateways, and of redstalk's own API, which this program uses only as an operator would.
//
// Exits with 0 if everything is correct. Prints "kill" when it wants the first instance
// killed, and waits for a line: "gone" if it stays so, "back" if it was started again,
// "never" if that would lose its tasks, and was not done.
'use strict'

const assert = require('assert')
const fs = require('fs')
const http = require('http')
const https = require('https')
const path = require('path')
const readline = require('readline')
const { once } = require('events')
const { setTimeout: sleep } = require('timers/promises')
const grpc = require('@grpc/grpc-js')
const loader = require('@grpc/proto-loader')

const [proto, folder, ...addresses] = process.argv.slice(2)
const same = assert.deepStrictEqual
const options = { keepCase: true, longs: Number, enums: String, defaults: true }
const { pb } = grpc.loadPackageDefinition(loader.loadSync(proto, options))
const beside = (module, file) => grpc.loadPackageDefinition(loader.loadSync(path.join(path.dirname(require.resolve(module + '/package.json')), file), options)).grpc

const TYPE = { parked: 'Ignore', delay: 'TaskDelay', ready: 'TaskReady', reserved: 'TaskReserved', retry: 'TaskRetryDelay' }
const NUMBER = { Ignore: undefined, TaskDelay: 2, TaskReady: 3, TaskReserved: 4, TaskRetryDelay: 6 } // zero values are left out
const PAUSE = 2000 // before the second try of a check, in ms
const SCHEDULE = [15, 30, 60, 15 * 60, 30 * 60, 3600, 4 * 3600, 8 * 3600, 12 * 3600] // after each check, in s
const TTR = 15000 // of tasks, with the defaults of the configuration file
const LATE = 10000 // how late anything may be, on a busy machine, in ms

// unary calls a method, and returns a promise of its answer.
const unary = (client, method, message) => new Promise((resolve, reject) =>
  client[method](message, { deadline: Date.now() + 30000 }, (err, answer) => err ? reject(err) : resolve(answer)))

// until waits until something is so.
async function until (what, is, limit = LATE) {
  for (const begun = performance.now(); !await is(); await sleep(20)) assert(performance.now() - begun < limit, `in vain: ${what}`)
}

// request sends JSON to HOST:PORT, and returns status and body.
async function request (method, address, way, message) {
  const answer = await fetch(`http://${address}${way}`, { method, headers: { 'content-type': 'application/json' }, body: message && JSON.stringify(message) })
  const text = await answer.text()
  return { status: answer.status, body: text && JSON.parse(text) }
}

// instances are the servers, each with a client by gRPC.
const instances = addresses.map(all => {
  const [byGRPC, byHTTP, api] = all.split(',')
  return { byGRPC, byHTTP, api, client: new pb.DelayQueue(byGRPC, grpc.credentials.createInsecure()) }
})
let here = instances[0] // the one that is asked

const add = task => unary(here.client, 'Add', task).then(a => a.uid)
const get = uid => unary(here.client, 'Get', { uid })
const remove = uid => unary(here.client, 'Remove', { uid })
const isGone = uid => get(uid).then(() => false, err => err.code === grpc.status.NOT_FOUND)

// inState waits until a task is in a state, and returns it. Both APIs show the same.
async function inState (uid, type) {
  let task
  await until(`${uid} is not ${type}`, async () => { task = await get(uid); return task.type === type })
  const { status, body } = await request('GET', here.byHTTP, '/task/get/' + uid)
  same([status, body.uid, body.name, body.type], [200, uid, task.name, NUMBER[type]])
  return task
}

// kick has the job of a task due now, as an operator may.
async function kick (uid) {
  const { body } = await request('GET', here.api, '/v1/tubes/zywaited/keys/' + uid)
  const { status } = await request('POST', here.api, `/v1/jobs/${body.id}/kick`)
  assert(status < 300, `kick answers ${status}`)
}

// calls are the calls of the callback servers, by the name of the task. What becomes of
// a call is for handlers, by name; without one it goes well at once. answered counts the calls
// that somebody was there to get the answer of.
const calls = {}
const answered = {}
const handlers = {}

async function note (schema, way, message, gone) {
  const { name } = message
  ;(calls[name] ||= []).push({ schema, way, at: Date.now(), ...message })
  const well = handlers[name] ? await handlers[name](calls[name].length) : true
  if (well && !gone()) answered[name] = (answered[name] || 0) + 1
  return well
}

// receive serves callbacks by HTTP or HTTPS. What goes well is redirected, and is done when that was followed.
const receive = schema => async (req, res) => {
  if (req.url === '/elsewhere') {
    same([req.method, req.headers['content-type']], ['GET', undefined])
    res.writeHead(204).end()
    return
  }
  let text = ''
  for await (const piece of req) text += piece
  same([req.method, req.headers['content-type']], ['POST', 'application/json'])
  const well = await note(schema, req.url, JSON.parse(text), () => res.destroyed)
  res.writeHead(well ? 302 : 400, { location: '/elsewhere' }).end('whatever')
}

// other is a service of the user's own: the same messages, by another full method.
const other = { Call: { ...pb.Callback.service.Send, path: '/other.Service/Call' } }

const send = way => async (call, answer) => {
  const well = await note('GRPC', way, call.request, () => call.cancelled)
  answer(well ? null : { code: grpc.status.UNAVAILABLE, message: 'not now' }, {})
}

// serveCallbacks returns where each schema is called.
async function serveCallbacks () {
  const pem = name => fs.readFileSync(path.join(folder, name))
  const plain = http.createServer(receive('HTTP'))
  const encrypted = https.createServer({ cert: pem('cert.pem'), key: pem('key.pem') }, receive('HTTPS'))
  const rpc = new grpc.Server()
  rpc.addService(pb.Callback.service, { Send: send('Send') })
  rpc.addService(other, { Call: send('Call') })
  for (const server of [plain, encrypted]) await once(server.listen(0, 'localhost'), 'listening')
  const port = await new Promise((resolve, reject) =>
    rpc.bindAsync('localhost:0', grpc.ServerCredentials.createInsecure(), (err, port) => err ? reject(err) : resolve(port)))
  const at = port => `localhost:${port}`
  return { HTTP: at(plain.address().port), HTTPS: at(encrypted.address().port), GRPC: at(port) }
}

let where // serveCallbacks

// make is a task that calls back in so many seconds.
const make = (name, seconds, schema = 'GRPC', way = '') => ({
  name, time: { duration: seconds, relative: true }, callback: { schema, address: where[schema], path: way }, args: `args of ${name}`
})

// services asks what there is, by reflection alone: a client that has not even PROTO.
async function services () {
  const v1 = beside('@grpc/reflection', 'build/proto/grpc/reflection/v1/reflection.proto').reflection.v1
  const client = new v1.ServerReflection(here.byGRPC, grpc.credentials.createInsecure())
  const stream = client.ServerReflectionInfo()
  const asked = async question => { stream.write(question); return (await once(stream, 'data'))[0] }
  const names = (await asked({ list_services: '*' })).list_services_response.service.map(s => s.name)
  for (const name of ['pb.DelayQueue', 'grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection']) assert(names.includes(name), `there are only ${names}`)

  const set = []
  for (const question of [{ file_by_filename: 'google/protobuf/empty.proto' }, { file_containing_symbol: 'pb.DelayQueue' }]) {
    for (const file of (await asked(question)).file_descriptor_response.file_descriptor_proto) {
      set.push(Buffer.from([10, ...varint(file.length)]), file) // field 1 of a FileDescriptorSet
    }
  }
  stream.end()
  const found = grpc.loadPackageDefinition(loader.loadFileDescriptorSetFromBuffer(Buffer.concat(set), options)).pb
  const generic = new found.DelayQueue(here.byGRPC, grpc.credentials.createInsecure())
  const { uid } = await unary(generic, 'Add', make('generic', 3600))
  same((await unary(generic, 'Get', { uid })).name, 'generic')
  await unary(generic, 'Remove', { uid })
  assert(await isGone(uid))
}

const varint = n => n < 128 ? [n] : [n & 127 | 128, ...varint(n >> 7)]

async function health () {
  const { Health } = beside('grpc-health-check', 'proto/health/v1/health.proto').health.v1
  const client = new Health(here.byGRPC, grpc.credentials.createInsecure())
  for (const service of ['', 'pb.DelayQueue']) same((await unary(client, 'Check', { service })).status, 'SERVING')
  await assert.rejects(unary(client, 'Check', { service: 'nobody' }), { code: grpc.status.NOT_FOUND })
}

// ways: by each schema a task is called when it is due, not before, and once; then it is gone.
async function ways () {
  const begun = Date.now()
  const wanted = {}
  const adding = []
  for (const [schema, way, at] of [['HTTP', 'hook?a=b', '/hook?a=b'], ['HTTPS', '/hook', '/hook'], ['GRPC', '', 'Send'], ['GRPC', 'other.Service/Call', 'Call']]) {
    for (const door of ['gRPC', 'HTTP']) {
      const name = `by ${door} to ${schema} ${at}`
      const task = make(name, 2, schema, way)
      if (door === 'HTTP') task.time = { duration: Math.floor(begun / 1000) + 3 } // since 1970
      wanted[name] = { schema, way: at, url: `${schema.toLowerCase()}://${where[schema]}/${way.replace(/^\//, '')}`, due: task.time.relative ? begun + 2000 : task.time.duration * 1000 }
      adding.push(door === 'gRPC' ? add(task) : request('POST', here.byHTTP, '/task/add', task).then(a => a.body.uid))
    }
  }
  const uids = await Promise.all(adding)
  for (const uid of uids) await until(`${uid} is not called`, () => isGone(uid), 2000 + LATE)
  Object.entries(wanted).forEach(([name, want], i) => {
    same(calls[name].length, 1, name)
    const [call] = calls[name]
    same([call.uid, call.args, call.schema, call.way, call.url], [uids[i], `args of ${name}`, want.schema, want.way, want.url])
    assert(call.at >= want.due, `${name} is called ${want.due - call.at} ms early`)
  })
  same((await request('GET', here.byHTTP, '/task/get/' + uids[0])).status, 404)
}

// same content: the same task is added once, through any API and instance.
async function content () {
  const task = { ...make('content', 0), time: { duration: Math.floor(Date.now() / 1000) + 3600 } }
  const uid = await add(task)
  assert.match(uid, /^[0-9a-f]{32}$/)
  for (const other of instances) {
    same((await unary(other.client, 'Add', task)).uid, uid)
    same((await request('POST', other.byHTTP, '/task/add', task)).body.uid, uid)
  }
  assert.notStrictEqual(await add({ ...task, args: 'others' }), uid)
  same((await inState(uid, TYPE.delay)).exec_time, task.time.duration * 1e9)
  await remove(uid)
  await remove(await add({ ...task, args: 'others' }))
}

async function refused () {
  for (const wrong of [{ name: '' }, { callback: null }, { callback: { schema: 'FTP', address: where.HTTP } }, { callback: { schema: 'HTTP', address: '10.0.0.1:80' } }]) {
    const task = { ...make('refused', 0), ...wrong }
    await assert.rejects(add(task), { code: grpc.status.INVALID_ARGUMENT })
    same(await request('POST', here.byHTTP, '/task/add', task), { status: 400, body: '' })
  }
}

// schedule: a task that always fails is tried twice in each check, and checked by the schedule; the
// first wait is sat out, the others are cut short by a kick. Then it is parked.
async function schedule () {
  handlers.schedule = () => false
  const uid = await add(make('schedule', 0))
  for (let check = 1; check <= SCHEDULE.length; check++) {
    await until(`check ${check}`, () => calls.schedule?.length === 2 * check, TTR + PAUSE + LATE)
    const [first, second] = calls.schedule.slice(-2).map(c => c.at)
    assert(second - first >= PAUSE && second - first < PAUSE + LATE, `the second try came after ${second - first} ms`)
    const task = await inState(uid, TYPE.retry)
    const wait = task.next_exec_time / 1e6 - first
    const late = check === 1 ? LATE : 2 * LATE // kicks take their time
    const want = SCHEDULE[check - 1] * 1000
    assert(task.retry_times === check && wait >= want - 1000 && wait < want + late, `after check ${task.retry_times} it waits ${wait} ms`)
    if (check > 1) {
      await kick(uid)
      continue
    }
    await until('the check after 15 s', () => calls.schedule.length > 2, 15000 + LATE)
    assert(calls.schedule[2].at - first >= 15000 - 1000, 'it is early')
  }
  await inState(uid, TYPE.parked)
  same(calls.schedule.length, 2 * SCHEDULE.length)
  await remove(uid)
  assert(await isGone(uid))
}

// recovered: a success in the middle ends it.
async function recovered () {
  handlers.recovered = n => n === 4
  const uid = await add(make('recovered', 0, 'HTTP'))
  await inState(uid, TYPE.retry)
  await kick(uid)
  await until('it is not gone', () => isGone(uid))
  same(calls.recovered.length, 4)
}

// removal is effective in every state.
async function removal () {
  let release
  handlers.removal = async () => { await new Promise(resolve => { release = resolve }); return false }
  const waiting = await add(make('removed while it waits', 2))
  await inState(waiting, TYPE.delay)
  await remove(waiting)
  const called = await add(make('removal', 0))
  await inState(called, TYPE.reserved)
  same((await request('DELETE', here.byHTTP, '/task/remove/' + called)).status, 200)
  assert(await isGone(called))
  release()
  handlers.again = () => false
  const retried = await add(make('again', 0, 'HTTPS'))
  await inState(retried, TYPE.retry)
  same((await request('POST', here.byHTTP, '/task/remove/' + retried)).status, 200)
  for (const uid of [waiting, called, retried]) assert(await isGone(uid))
  await sleep(4000)
  same([calls['removed while it waits'], calls.removal.length <= 2, calls.again.length], [undefined, true, 2])
}

// held: a task that is due, and that nobody may take, is ready.
async function held () {
  same((await request('POST', here.api, '/v1/tubes/zywaited/pause?for=10m')).status, 204)
  const uid = await add(make('held', 0))
  await inState(uid, TYPE.ready)
  same((await request('POST', here.api, '/v1/tubes/zywaited/pause?for=0s')).status, 204)
  await until('it is not called', () => isGone(uid))
}

// killed: an instance dies in the middle of calls, and with tasks that wait. The others, or the
// one that comes after it, call all of them, none before it is due, and none twice but those
// whose answer nobody was there to get.
async function killed () {
  const n = 40
  let letGo
  const held = new Promise(resolve => { letGo = resolve })
  const due = {}
  const uids = []
  for (let i = 0; i < n; i++) {
    const name = `killed ${i}`
    const [schema, seconds] = [['GRPC', 'HTTP', 'HTTPS'][i % 3], i % 2 ? 6 : 0]
    handlers[name] = async () => { await held; return true }
    due[name] = Date.now() + seconds * 1000
    uids.push(await add(make(name, seconds, schema)))
  }
  const taken = () => Object.keys(due).filter(name => calls[name]).length
  await until('they are not called', () => taken() >= n / 2)
  console.log('kill')
  const [said] = await once(readline.createInterface({ input: process.stdin }), 'line')
  if (said === 'gone') here = instances[1]
  await sleep(500) // its connections are seen to have ended
  letGo()
  for (const uid of uids) await until(`${uid} is lost`, () => isGone(uid), TTR + 4 * LATE)
  let again = 0
  for (const [name, at] of Object.entries(due)) {
    assert(calls[name][0].at >= at, `${name} is early`)
    same([name, answered[name]], [name, 1])
    again += calls[name].length - 1
  }
  if (said === 'never') same(again, 0)
  if (said === 'back') assert(again >= n / 2, `${again} were called again`)
  console.log(`ok killed: ${again} of ${n} called again`)
}

async function main () {
  where = await serveCallbacks()
  for (const part of [services, health, ways, content, refused, recovered, removal, held]) {
    await part()
    console.log('ok', part.name)
  }
  // The schedule is kicked, so nothing else is kicked or paused beside it.
  await schedule()
  console.log('ok schedule')
  await killed()
  process.exit(0)
}

main().catch(err => {
  console.error(err)
  process.exit(1)
})
