# frozen_string_literal: false

# Exercises the server at HOST PORT with beaneater. Exits
# with 0 if everything is correct. Prints "restart" to request that the server is
# stopped and started again, and waits for a line that says that this was done.

require 'beaneater'

LEDGER = 500 # how many jobs go from two producers to two consumers

abort 'usage: life.rb HOST PORT' unless ARGV.size == 2
ADDRESS = ARGV.join(':')
$stdout.sync = true
Thread.abort_on_exception = true
Thread.report_on_exception = false

def check(is, what)
  raise "FAILED: #{what}" unless is
end

def same(want, got, what)
  check(want == got, "#{what} is #{got.inspect}, want #{want.inspect}")
end

def fails(error, what)
  yield
rescue StandardError => e
  same(error, e.class, "#{what} (#{e.message})")
else
  check(false, "#{what} succeeded")
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Checks how long the block took: late is allowed, early is not.
def within(least, most, what)
  begun = now
  yield
  took = now - begun
  check(took >= least && took <= most, "#{what} took #{took} s, want #{least} to #{most}")
end

# Yields a connection that watches one tube, and that tube.
def queue(name)
  client = Beaneater.new(ADDRESS)
  client.tubes.watch!(name)
  return client, client.tubes[name] unless block_given?
  begin
    yield client, client.tubes[name]
  ensure
    client.close
  end
end

def reserved(client, id, body)
  job = client.tubes.reserve(5)
  same([id, body.b], [job.id, job.body.b], 'the reserved job')
  job
end

# Checks pairs of the page of a job.
def job(it, pairs)
  page = it.stats
  pairs.each { |key, want| same(want, page[key], "#{key} of job #{it.id}") }
end

def life
  queue('life') do |client, tube|
    same(['life'], client.tubes.watched.map(&:name), 'the tubes watched')
    id = tube.put('a life', pri: 7, delay: 0, ttr: 60)[:id]
    same('life', client.tubes.used.name, 'the tube used')
    it = client.jobs.find(id)
    job(it, id: id.to_i, tube: 'life', state: 'ready', pri: 7, delay: 0, ttr: 60)
    same('a life', it.body, 'peek')
    same([id, nil, nil], %w[ready delayed buried].map { |s| tube.peek(s)&.id }, 'peek-*')

    it = reserved(client, id, 'a life')
    job(it, state: 'reserved')
    same(nil, tube.peek(:ready), 'peek-ready of a reserved job')
    sleep 1.1
    check(it.stats.time_left <= 58, 'the time to run does not run')
    it.touch
    check(it.stats.time_left >= 59, 'touch has not touched')

    released(client, tube, it)
    buried(client, tube, id)
    it.delete
    gone(client, it)
  end
end

def released(client, tube, it)
  within(1, 3, 'the delay') do
    it.release(pri: 3, delay: 1)
    job(it, state: 'delayed', pri: 3, delay: 1)
    same([nil, it.id, nil], %w[ready delayed buried].map { |s| tube.peek(s)&.id }, 'peek-*')
    reserved(client, it.id, 'a life').release(pri: 4, delay: 0)
  end
  job(it, state: 'ready', pri: 4)
end

def buried(client, tube, id)
  it = reserved(client, id, 'a life')
  it.bury(pri: 5)
  job(it, state: 'buried', pri: 5)
  same([nil, nil, id], %w[ready delayed buried].map { |s| tube.peek(s)&.id }, 'peek-*')
  same('1', tube.kick(10)[:id], 'kick')
  same('0', tube.kick(10)[:id], 'kick of nothing')
  it = reserved(client, id, 'a life')
  it.bury(pri: 5)
  it.kick
  job(it, state: 'ready')
  reserved(client, id, 'a life')
  job(it, reserves: 5, releases: 2, buries: 2, kicks: 2, timeouts: 0)
end

# Checks that every command about a job reports that there is none.
def gone(client, it)
  fails(Beaneater::NotFoundError, 'delete') { it.delete }
  fails(Beaneater::NotFoundError, 'kick-job') { it.kick }
  fails(Beaneater::NotFoundError, 'stats-job') { it.stats }
  same(false, it.exists?, 'whether the job exists')
  same(nil, client.jobs.find(it.id), 'peek')
  ["release #{it.id} 0 0", "bury #{it.id} 0", "touch #{it.id}"].each do |command| # which it does not send otherwise
    fails(Beaneater::NotFoundError, command) { client.connection.transmit(command) }
  end
end

# Only the holder of a job may change it, and releases it when it disconnects.
def holders
  holder, tube = queue('holders')
  id = tube.put('mine')[:id]
  reserved(holder, id, 'mine')
  queue('holders') do |other, _|
    it = other.jobs.find(id)
    same('mine', it.body, 'peek by another')
    fails(Beaneater::NotFoundError, 'delete by another') { it.delete }
    fails(Beaneater::NotFoundError, 'release by another') { it.release(pri: 0, delay: 0) }
    fails(Beaneater::NotFoundError, 'bury by another') { it.bury(pri: 0) }
    fails(Beaneater::NotFoundError, 'touch by another') { it.touch }
    holder.close
    it = reserved(other, id, 'mine')
    job(it, reserves: 2, timeouts: 0, releases: 0)
    it.delete
  end
end

# The smallest priority first, of all tubes that are watched; among equals the
# first that was put.
def order
  queue('order-1') do |client, one|
    two = client.tubes['order-2']
    nine = one.put('9', pri: 9)[:id]
    first = two.put('5', pri: 5)[:id]
    second = two.put('5', pri: 5)[:id]
    least = one.put('1', pri: 1)[:id]
    client.tubes.watch('order-2')
    same(%w[order-1 order-2], client.tubes.watched.map(&:name), 'the tubes watched')
    reserved(client, least, '1').delete
    reserved(client, first, '5').delete
    client.tubes.ignore('order-2')
    fails(Beaneater::NotIgnoredError, 'ignoring the last tube') { client.tubes.ignore('order-1') }
    reserved(client, nine, '9').delete
    fails(Beaneater::TimedOutError, 'reserve') { client.tubes.reserve(0) }
    client.jobs.find(second).delete
    fails(Beaneater::InvalidTubeName, 'watching a bad name') { client.tubes.watch('a:b') }
  end
end

def pause
  queue('paused') do |client, tube|
    id = tube.put('later')[:id]
    within(2, 4, 'the pause') do
      tube.pause(2)
      same(2, tube.stats.pause, 'pause')
      fails(Beaneater::TimedOutError, 'reserve from a paused tube') { client.tubes.reserve(0) }
      reserved(client, id, 'later').release(pri: 0, delay: 0)
    end
    within(0, 2, 'resuming') do
      tube.pause(100)
      fails(Beaneater::TimedOutError, 'reserve from a paused tube') { client.tubes.reserve(0) }
      tube.pause(0)
      reserved(client, id, 'later').delete
    end
    fails(Beaneater::NotFoundError, 'pause of no tube') { client.tubes['nowhere'].pause(1) }
  end
end

def statistics
  queue('figures') do |client, tube|
    keys = %w[cmd_put cmd_bury cmd_stats total_jobs current_jobs_ready current_jobs_urgent current_jobs_buried current_jobs_reserved]
    before = keys.map { |key| client.stats[key] }
    ready = tube.put('x', pri: 10)[:id]
    buried = tube.put('y', pri: 1)[:id]
    reserved(client, buried, 'y').bury
    after = keys.map { |key| client.stats[key] }
    same([2, 1, keys.size, 2, 1, 1, 1, 0], after.zip(before).map { |a, b| a - b }, "the growth of #{keys.join(', ')}")
    same([65_535, false, true], [client.stats.max_job_size, client.stats.draining, client.stats.current_connections >= 1], 'stats')
    check(client.stats.version.is_a?(String) || client.stats.version.is_a?(Float), 'version')
    page = tube.stats
    { name: 'figures', current_jobs_ready: 1, current_jobs_buried: 1, total_jobs: 2, current_using: 1,
      current_watching: 1, current_waiting: 0, cmd_delete: 0 }.each { |key, want| same(want, page[key], "#{key} of the tube") }
    same(%w[default figures], client.tubes.all.map(&:name).sort, 'list-tubes')
    [ready, buried].each { |id| client.jobs.find(id).delete }
    same(2, tube.stats.cmd_delete, 'cmd-delete of the tube')
    fails(Beaneater::NotFoundError, 'stats-tube of no tube') { client.tubes['nowhere'].stats }
  end
end

def bodies
  largest = Random.new(1).bytes(65_535)
  queue('bodies') do |client, tube|
    [(0..255).map(&:chr).join, '', "\r\n", "a\r\ndelete 1\r\n\r\n", "\0", 'jürgen', largest].each do |body|
      id = tube.put(body.b)[:id]
      check(client.jobs.find(id).body.b == body.b, "peek: another body of #{body.bytesize} bytes")
      reserved(client, id, body).delete
    end
    fails(Beaneater::JobTooBigError, 'put of 65536 bytes') { tube.put(largest + 'x') }
  end
end

def waiting
  queue('waiting') do |client, tube|
    within(0, 0.9, 'no timeout') { fails(Beaneater::TimedOutError, 'reserve') { client.tubes.reserve(0) } }
    within(1, 2, 'a timeout of 1 s') { fails(Beaneater::TimedOutError, 'reserve') { client.tubes.reserve(1) } }
    late = Thread.new do
      sleep 0.3
      queue('waiting') { |_, other| other.put('comes late', ttr: 3) }
    end
    it = nil
    within(0.3, 2, 'waiting for a job') { it = client.tubes.reserve }
    same('comes late', it.body, 'what came')
    late.join
    # Two seconds after the reservation there is one left.
    within(1.7, 3, 'DEADLINE_SOON') { fails(Beaneater::DeadlineSoonError, 'reserve') { client.tubes.reserve } }
    it.touch
    fails(Beaneater::TimedOutError, 'reserve after touch') { client.tubes.reserve(0) }
    it.delete
    expiry(client, tube)
  end
end

def expiry(client, tube)
  id = tube.put('too slow', ttr: 1)[:id]
  slow = reserved(client, id, 'too slow')
  sleep 1.3
  client.tubes.all # beanstalkd may notice only now
  queue('waiting') do |other, _|
    it = reserved(other, id, 'too slow')
    job(it, reserves: 2, timeouts: 1)
    fails(Beaneater::NotFoundError, 'delete by the late holder') { slow.delete }
    it.delete
  end
end

# Requests a restart of the server.
def restart
  puts 'restart'
  check($stdin.gets, 'nobody has restarted the server')
end

# Beaneater reconnects by itself when the connection is closed. It
# watches the same tubes again, and repeats waiting commands.
def restarts
  2.times { survive }
end

def survive
  client, tube = queue('survivors')
  buried = tube.put('buried', pri: 1)[:id]
  reserved(client, buried, 'buried').bury(pri: 6)
  held = tube.put('held', pri: 1)[:id]
  reserved(client, held, 'held')
  ready = tube.put("ready\r\n\0", pri: 2)[:id]
  delayed = tube.put('delayed', pri: 3, delay: 100, ttr: 60)[:id]
  waiter, deserted = queue('deserted')
  waiting = Thread.new { waiter.tubes.reserve.tap(&:delete).body }
  sleep 0.1
  restart

  job(client.jobs.find(buried), state: 'buried', pri: 6, tube: 'survivors')
  same(%w[survivors], client.tubes.watched.map(&:name), 'the tubes watched')
  job(client.jobs.find(delayed), state: 'delayed', pri: 3, delay: 100, ttr: 60)
  job(client.jobs.find(ready), state: 'ready', pri: 2)
  # A killed instance's reservations may take a while.
  jobs = Array.new(2) { client.tubes.reserve(15).tap(&:delete) }
  same([[held, 'held'], [ready, "ready\r\n\0"]], jobs.map { |j| [j.id, j.body] }.sort_by { |id, _| id.to_i }, 'the jobs')
  client.jobs.find(delayed).kick
  reserved(client, delayed, 'delayed').delete
  same('1', tube.kick(1)[:id], 'kick')
  reserved(client, buried, 'buried').delete
  client.tubes[deserted.name].put('for who waits')
  check(waiting.join(20), 'who waited when the server went is not served')
  same('for who waits', waiting.value, 'what it got')
  id = tube.put('new')[:id]
  check(id.to_i > delayed.to_i, 'an id was given twice')
  client.jobs.find(id).delete
  [client, waiter].each(&:close)
end

def ledger
  names = Thread::Queue.new
  producers = [0, 1].map { |part| Thread.new { produce(part) } }
  consumers = Array.new(2) { Thread.new { consume(names, producers) } }
  (producers + consumers).each(&:join)
  times = Array.new(names.size) { names.pop }.tally
  LEDGER.times { |n| same(1, times[n.to_s], "how often job #{n} was done") }
  same(LEDGER, times.size, 'how many jobs were done')
end

def produce(first)
  queue('ledger') do |_, tube|
    first.step(LEDGER - 1, 2) { |n| tube.put(n.to_s, pri: n % 7, delay: n % 100 == 50 ? 1 : 0, ttr: 60) }
  end
end

# Records the names of finished jobs, until there are no more. Every
# fiftieth job is released once.
def consume(names, producers)
  queue('ledger') do |client, _|
    loop do
      last = producers.none?(&:alive?)
      it = client.tubes.reserve(3)
      if it.body.to_i % 50 == 7 && it.stats.releases.zero?
        it.release(pri: 0, delay: 0)
      else
        it.delete
        names << it.body
      end
    rescue Beaneater::TimedOutError
      break if last
    end
  end
end

# The parts up to waiting measure seconds.
%i[life pause waiting holders order statistics bodies restarts ledger].each do |part|
  send(part)
  puts "ok #{part}"
end
