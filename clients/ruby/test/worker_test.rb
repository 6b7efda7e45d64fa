# frozen_string_literal: true

require "timeout"
require_relative "server"

# A worker in a thread.
class Running
  attr_reader :left

  def initialize(worker)
    @worker = worker
    @thread = Thread.new { @left = worker.run(signals: []) }
    @thread.report_on_exception = false
  end

  def stop
    @worker.stop
    raise "the worker does not end" unless @thread.join(30)
  end
end

# What every server can do.
class EveryWorker < ServerTest
  def setup
    super
    @log = Log.new
  end

  def worker(tube = @tube, **settings, &handler)
    worker = Redstalk::Worker.new(self.class.server.address, logger: @log, **settings)
    worker.handle(tube, &handler) if handler
    worker
  end

  def run_worker(worker)
    Running.new(worker).tap { |running| @closing << running.method(:stop) }
  end

  def state(id)
    @client.stats_job(id)["state"]
  rescue Redstalk::NotFoundError
    "gone"
  end

  def test_returns_and_exceptions
    tries = Hash.new(0)
    run_worker(worker(backoff: Redstalk::Backoff.intervals(0, 0)) do |job|
      tries[job.body] += 1
      raise Redstalk::Skip, "bad address" if job.body == "skip"
      raise Redstalk::Snooze if tries[job.body] == 1 && job.body == "snooze"
      raise "no" if (tries[job.body] < 3 && job.body == "fail") || job.body == "always"
    end)
    ids = %w[done fail always skip snooze].to_h { |body| [body, @client.put(body)] }
    states = { "done" => "gone", "fail" => "gone", "always" => "buried", "skip" => "buried", "snooze" => "gone" }
    until_true { ids.transform_values { |id| state(id) } == states }
    assert_equal({ "done" => 1, "fail" => 3, "always" => 3, "skip" => 1, "snooze" => 2 }, tries)
  end

  def test_types
    seen = Queue.new
    other = "#{@tube}-2"
    w = worker { |job| seen << [:any, job.body] }
    w.handle(@tube, type: "a") { |job| seen << [:a, job.data] }
    w.handle(other, ->(job) { seen << [:b, job.data["n"]] }, type: :b)
    run_worker(w)
    @client.put_typed("a", [1, nil])
    @client.put_typed(:b, { n: 2 }, tube: other)
    ['{"type":7}', "{\xff".b, '{"type":"c","data":1}'].each { |body| @client.put(body) }
    @client.put_typed("a", Array.new(500).reduce { |deep, _| [deep] })
    odd = [@client.put_typed("c", tube: other), @client.put("text", tube: other)]
    until_true { seen.size == 6 && odd.all? { |id| state(id) == "buried" } }
    assert_equal [:a, :a, :any, :any, :any, :b], Array.new(6) { seen.pop.first }.sort
    assert_raises(ArgumentError) { @client.put_typed("") }
  end

  def test_touches
    calls = Queue.new
    run_worker(worker { |job| calls << job.id && sleep(3) })
    id = @client.put("slow", ttr: 1)
    until_true { state(id) == "gone" }
    assert_equal 1, calls.size
  end

  def test_lost_job
    causes = Queue.new
    run_worker(worker do |job|
      next unless causes.empty?

      job.client.delete(job.job)
      causes << job.wait_cancelled(10)
    end)
    @client.put("x", ttr: 1)
    assert_equal "deleted", Timeout.timeout(10) { causes.pop }
  end

  def timed_out?(id)
    stats = @client.stats_job(id)
    stats["state"] == "delayed" && stats.fetch("reason", "timeout") == "timeout" && stats.fetch("failures", 1) == 1
  end

  def test_timeout
    causes = Queue.new
    run_worker(worker(timeout: 0.3, backoff: Redstalk::Backoff.intervals(3600)) do |job|
      begin
        job.body == "loops" ? loop { Math.sqrt(2) } : sleep
      rescue StandardError
        flunk("not this")
      rescue Exception => e # rubocop:disable Lint/RescueException
        causes << [job.body, e.class, job.cause]
        raise Redstalk::Skip, "no time for this" if job.body == "skips"
        raise if job.body != "returns"
      end
    end)
    ids = %w[sleeps loops skips returns].to_h { |body| [body, @client.put(body)] }
    until_true { timed_out?(ids["sleeps"]) && timed_out?(ids["loops"]) && [state(ids["skips"]), state(ids["returns"])] == %w[buried gone] }
    assert_equal [Redstalk::HandlerTimeout, "timeout"], Array.new(4) { causes.pop.drop(1) }.uniq.flatten
  end

  def test_timeout_ignored
    hang, handled = Queue.new, Queue.new
    w = worker(concurrency: 1, timeout: 0.2, backoff: Redstalk::Backoff.intervals(3600)) do |job|
      begin
        job.body == "hangs" ? hang.pop : handled << job.body
      rescue Redstalk::HandlerTimeout
        retry
      end
    end
    w.define_singleton_method(:grace) { 0.5 }
    run_worker(w)
    id = @client.put("hangs", ttr: 1)
    until_true { timed_out?(id) }
    following = @client.put("next")
    sleep(0.2)
    assert_equal ["ready", 0], [state(following), handled.size] # its thread is in use
    hang << 1
    until_true { state(following) == "gone" }
    assert timed_out?(id) # what the handler returned in the end changed nothing
    assert_match(/handler of job #{id} of tube #{@tube} ignores/, @log.lines.size.times.map { @log.lines.pop }.join)
  end

  def test_timeout_of_a_handler
    w = worker(timeout: 0.2, backoff: Redstalk::Backoff.intervals(3600)) { sleep(0.7) }
    w.handle(@tube, type: "unlimited", timeout: 0) { sleep(0.7) }
    w.handle(@tube, type: "more") { |job| job.set_timeout(5) && sleep(0.7) }
    run_worker(w)
    ids = [@client.put_typed("unlimited"), @client.put_typed("more"), @client.put("usual")]
    until_true { ids[0, 2].all? { |id| state(id) == "gone" } && timed_out?(ids[2]) }
  end

  # A timeout that comes when the handler has just returned is not raised in the next one.
  def test_timeout_that_comes_too_late
    job = Redstalk::WorkerJob.new(Redstalk::Job.new(id: 1, body: "", info: {}, reserved_at: 0.0), nil)
    lock, go_on = job.instance_variable_get(:@lock), Queue.new
    thread = Thread.new do
      Thread.handle_interrupt(Redstalk::HandlerTimeout => :never) do
        [job.interruptible { go_on.pop }, Thread.handle_interrupt(Redstalk::HandlerTimeout => :immediate) { sleep(0.01) && "next" }]
      end
    end
    thread.report_on_exception = false
    sleep(0.01) until go_on.num_waiting == 1
    lock.synchronize do
      go_on << "first"
      sleep(0.1) # the thread waits for the lock
      thread.raise(Redstalk::HandlerTimeout)
    end
    assert_equal %w[first next], thread.value
  end

  def test_gives_back
    started, over = Queue.new, Queue.new
    running = run_worker(worker(shutdown_timeout: 0) { (started << 1) && over.pop })
    id = @client.put("x").id
    started.pop
    running.stop
    assert_equal 1, running.left
    job = @client.reserve(timeout: 5)
    assert_equal [id, 0], [job.id, @client.stats_job(job).fetch("failures", 0)]
    over << 1
  end

  # It also counts a handler whose job has failed since its time was over.
  def test_counts_the_handlers_that_are_left
    started, over = Queue.new, Queue.new
    w = worker(shutdown_timeout: 0, timeout: 0.1) { Thread.handle_interrupt(Redstalk::HandlerTimeout => :never) { (started << 1) && over.pop } }
    w.instance_variable_set(:@grace, 0.1)
    running = run_worker(w)
    id = @client.put("x").id
    started.pop
    until_true { state(id) == "delayed" }
    running.stop
    assert_equal 1, running.left
    over << 1
  end

  def test_stops_without_a_server
    began, over = Queue.new, Queue.new
    server = Server.start
    running = Running.new(Redstalk::Worker.new(server.address, logger: @log, wait: 1, shutdown_timeout: 0).handle("t") { (began << 1) && over.pop })
    Redstalk::Client.open(server.address, use: "t") { |client| 3.times { client.put("x", ttr: 60) } }
    3.times { began.pop }
    server.kill
    assert_operator seconds { running.stop }, :<, 5
    assert_equal 3, running.left
    running = Running.new(Redstalk::Worker.new(server.address, logger: @log).handle("t") { nil })
    sleep(0.3)
    assert_operator seconds { running.stop }, :<, 2
  ensure
    3.times { over << 1 }
    server.stop
  end

  def seconds
    begin_at = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_at
  end

  def test_stop_waits
    started = Queue.new
    running = run_worker(worker { |job| (started << 1) && sleep(0.5) && started << job.stopping? })
    id = @client.put("x")
    started.pop
    running.stop
    assert_equal [0, "gone", true], [running.left, state(id), started.pop]
  end

  def test_weights
    many, few = "#{@tube}-many", "#{@tube}-few"
    handled = Queue.new
    @client.put_many(Array.new(300) { |i| { body: "x", tube: i.even? ? many : few } })
    w = worker(concurrency: 2)
    w.handle(many, weight: 9) { |job| handled << job.tube }
    w.handle(few, weight: 1) { |job| handled << job.tube }
    run_worker(w)
    until_true { handled.size >= 300 }
    order = Array.new(300) { handled.pop }
    assert_operator order[0, 100].count(many), :>, 70
    assert_operator order[0, 150].count(few), :>, 0
  end
end

# What only redstalk has.
class WorkerExtensions < EveryWorker
  def test_results
    values = { "json" => { n: [1] }, "bytes" => "\xff".b, "text" => "ä", "nil" => nil, "object" => Object.new, "long" => "x" * 70_000, "nan" => Float::NAN, "bad" => "\xff" }
    run_worker(worker { |job| values[job.body] })
    forgotten = @client.put("json")
    { "json" => '{"n":[1]}', "bytes" => "\xff".b, "text" => '"ä"'.b, "nil" => "", "object" => "", "long" => "", "nan" => "", "bad" => "" }.each do |name, result|
      ended = @client.wait(@client.put(name, keep: 60), timeout: 10)
      assert_equal ["done", result], [ended.how, ended.result], name
    end
    until_true { state(forgotten) == "gone" }
  end

  def test_cancel
    causes = Queue.new
    run_worker(worker do |job|
      causes << job.wait_cancelled(30)
      raise "cancelled"
    end)
    ids = %w[deleted flushed].map { |body| @client.put(body, key: body, ttr: 3) }
    until_true { ids.all? { |id| state(id) == "reserved" } }
    @client.delete_key(@tube, "deleted")
    @client.flush_tube(@tube, "reserved")
    until_true { @log.lines.size == 2 }
    assert_equal %w[deleted deleted], Array.new(2) { causes.pop }
    assert_equal ids.map { |id| "info: job #{id} was deleted before its handler returned" }.sort, Array.new(2) { @log.lines.pop }.sort
  end

  def test_server_retries
    seen = Queue.new
    run_worker(worker do |job|
      seen << [job.failures, job.reason, job.meta, job.key, job.trace]
      raise ArgumentError, "no"
    end)
    @client.put("x", retry: [0.01, 0.01], dead: "#{@tube}-dead", meta: { a: "b" }, key: "k", trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert_equal "ArgumentError: no", client(watch: "#{@tube}-dead").reserve(timeout: 20).info["reason"]
    rest = [{ "a" => "b" }, "k", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
    assert_equal [[0, "", *rest], [1, "ArgumentError: no", *rest], [2, "ArgumentError: no", *rest]], Array.new(3) { seen.pop }
  end

  def test_checkpoint_and_progress
    seen = Queue.new
    run_worker(worker do |job|
      seen << job.last_checkpoint
      job.progress("1/2")
      job.checkpoint({ step: 1 }) unless job.last_checkpoint
      case seen.size
      when 1 then raise Redstalk::NotFinished
      when 2 then raise "no"
      else job.checkpoint(nil) || [job.last_checkpoint, job.group, job.batch, job.deliveries]
      end
    end)
    id = @client.put("x", retry: [0.01], keep: 60, group: "acme", batch: @batch)
    assert_equal [nil, "acme", @batch, 2], @client.wait(id, timeout: 10).value
    assert_equal [nil, { "step" => 1 }, { "step" => 1 }], Array.new(3) { seen.pop }
  end

  def test_progress_is_sent
    go_on = Queue.new
    run_worker(worker { |job| 100.times { |n| job.progress("#{n}/100") } && go_on.pop })
    id = @client.put("x")
    until_true { @client.stats_job(id)["progress"] == "99/100" }
    go_on << 1
    until_true { state(id) == "gone" }
  end

  def test_stopping_and_not_finished
    started = Queue.new
    running = run_worker(worker do |job|
      started << 1
      sleep(0.01) until job.stopping?
      job.checkpoint(7)
      raise Redstalk::NotFinished
    end)
    id = @client.put("x")
    started.pop
    running.stop
    assert_equal 0, running.left
    job = @client.reserve(timeout: 1)
    assert_equal [id.id, 0, "7"], [job.id, job.info["failures"], @client.get_checkpoint(job)]
  end
end

Server::ENGINES.each { |engine| Object.const_set("Worker#{engine.capitalize}Test", Class.new(WorkerExtensions) { self.engine = engine }) }

class WorkerBeanstalkdTest < EveryWorker
  self.engine = "beanstalkd"
end

# Whatever user code does is a failure of its job alone.
class FaultsTest < EveryWorker
  self.engine = "memory"

  def self.runnable_methods = public_instance_methods(false).map(&:to_s).grep(/^test_/)

  class Textless < StandardError
    def message = response.text
  end

  class Odd < Exception # rubocop:disable Lint/InheritException
    def self.name = exit
    def message = throw(:odd)
    def backtrace = raise(Interrupt)
    def class = raise("no class")
    def to_s = 7
    def ==(_other) = raise("equal to nothing")
  end

  class Endless < Redstalk::Snooze
    def seconds = 10**400
  end

  def raising(error) = ->(_) { raise error }

  FAULTS = {
    textless: -> { raise Textless }, odd: -> { raise Odd }, exit: -> { exit }, exit0: -> { abort }, interrupt: -> { raise Interrupt },
    no_memory: -> { raise NoMemoryError }, stack: -> { (recurse = -> { recurse.call }).call }, thread_exit: -> { Thread.exit },
    thread_kill: -> { Thread.current.kill }, killed: -> { Thread.new(Thread.current, &:kill).join && sleep }, throw: -> { throw :out },
    no_exception: -> { raise 7 }, lambda_break: proc { break }, proc_return: proc { return }, endless: -> { raise Endless }, late: -> { raise Redstalk::Snooze, 10**12 },
    nan: -> { raise Redstalk::Snooze, Float::NAN }, text: -> { raise Redstalk::Snooze, "soon" }, invalid: -> { raise "\xff\r\n\0" }, quotes: -> { raise %("\\) * 600 },
    utf16: -> { raise "ä".encode("UTF-16LE") }, binary: -> { raise "ä\xff".b }, nothing: -> { raise "" }, anonymous: -> { raise Class.new(StandardError), nil },
    raised: -> { Thread.current.raise(SignalException, "TERM") }, killed_late: -> { begin; raise "x"; ensure; Thread.exit; end },
    not_found: -> { raise Redstalk::NotFoundError }, timeout: -> { Timeout.timeout(0.01) { sleep } }, fatal: -> { Fiber.yield },
    late_timeout: -> { raise Redstalk::HandlerTimeout }, fork: -> { (pid = fork) ? Process.wait(pid) && raise("of the parent") : nil },
    fork_exit: -> { (pid = fork { raise "of a child" }) && Process.wait(pid) && raise("of the parent") }
  }.freeze

  def test_faults
    ids = FAULTS.keys.to_h { |name| [name, @client.put(name.to_s)] }
    good = @client.put("good")
    run_worker(worker(concurrency: 1, backoff: ->(_) { 3600 }) { |job| job.body == "good" || (job.info.clear && FAULTS.fetch(job.body.to_sym).call) })
    until_true { state(good) == "gone" }
    ids.each { |name, id| assert_equal ["delayed", 1], @client.stats_job(id).values_at("state", "failures"), "#{name}" }
    assert_equal "the handler has ended its thread", @client.stats_job(ids[:thread_exit])["reason"][/the .*/]
  end

  def test_faults_with_a_faulty_logger
    @log = Object.new.tap { |log| %i[info warn error].each { |level| log.define_singleton_method(level) { |_| exit } } }
    test_faults
  end

  def test_faults_at_the_same_time
    ids = @client.put_many(Array.new(300) { |n| { body: FAULTS.keys[n % 14].to_s, ttr: 5 } })
    good = @client.put_many(Array.new(100, "good"))
    run_worker(worker(backoff: ->(_) { 3600 }) { |job| job.body == "good" || FAULTS.fetch(job.body.to_sym).call })
    until_true { good.all? { |id| state(id) == "gone" } && ids.all? { |id| @client.stats_job(id)["failures"] == 1 } }
  end

  def test_backoff
    values = [Float::NAN, Float::INFINITY, 2**32, 10**400, -1, "soon", Object.new, -> { raise Odd }, -> { exit }, -> { throw :out }]
    ids = @client.put_many(values.map(&:to_s))
    run_worker(worker(concurrency: 1, backoff: ->(_) { (value = values.empty? ? 3600 : values.pop).respond_to?(:call) ? value.call : value }) { raise "the job's own" })
    until_true { ids.all? { |id| @client.stats_job(id)["failures"].to_i.positive? } }
    assert_equal ["RuntimeError: the job's own"], ids.map { |id| @client.stats_job(id)["reason"] }.uniq
  end

  def test_skip_without_text
    run_worker(worker { raise Class.new(Redstalk::Skip) { def message = raise("no") } })
    id = @client.put("x")
    until_true { state(id) == "buried" }
  end

  def test_refused_for_good
    page = "---\n- lease\n- info\n- reason\n"
    fake = Fake.new do |_, line|
      if line == "capabilities" then "OK #{page.bytesize}\r\n#{page}"
      elsif line.start_with?("reserve")
        info = '{"tube":"default","pri":1,"ttr":3600}'
        "RESERVED_BATCH 1\r\nLEASED 7 1 0 #{info.bytesize}\r\n\r\n#{info}"
      else line.match?(/^(watch|ignore)/) ? "WATCHING 1" : "FORBIDDEN"
      end
    end
    calls = Queue.new
    w = Redstalk::Worker.new(fake.address, concurrency: 1, logger: @log)
    w.handle("default") { calls << 1 }
    run_worker(w)
    until_true(5) { calls.size > 3 } # each delivery is refused once
    fake.close
  end

  # Handlers of jobs that come late, but in time, do not wait for a touch: while threads compute, replies take long.
  def test_starts_before_a_touch_is_answered
    started = Queue.new
    fake = fake_of_late_jobs(started)
    w = Redstalk::Worker.new(fake.address, concurrency: 2, logger: @log)
    w.handle("default") { |job| started << job.id }
    run_worker(w)
    until_true { fake.lines.grep(/^(delete|finish)-lease/).size == 2 }
  ensure
    fake.close
  end

  # Returns a server that sends two jobs after more than a third of their TTR, and answers touches only when two handlers have started.
  def fake_of_late_jobs(started)
    page, info = "---\n- lease\n- info\n", '{"tube":"default","pri":1,"ttr":3}'
    sent = false
    Fake.new do |_, line|
      case line[/^[a-z]+/]
      when "capabilities" then "OK #{page.bytesize}\r\n#{page}"
      when "watch", "ignore" then "WATCHING 1"
      when "touch" then until_true(10) { started.size == 2 } && "TOUCHED"
      when "reserve"
        sleep(1.2)
        next "TIMED_OUT" if sent

        sent = true
        "RESERVED_BATCH 2#{[7, 8].map { |id| "\r\nLEASED #{id} 1 0 #{info.bytesize}\r\n\r\n#{info}" }.join}"
      else "DELETED"
      end
    end
  end

  # A worker that cannot work says so, and can be stopped.
  def test_no_server
    w = Redstalk::Worker.new("127.0.0.1:#{Server.free_port}", wait: 0.1, logger: @log).handle("a") { nil }
    running = run_worker(w)
    assert_match(/warn: no jobs can be fetched: Redstalk::UnavailableError/, Timeout.timeout(10) { @log.lines.pop })
    running.stop
    assert_raises(ArgumentError) { Redstalk::Worker.new.run(signals: []) }
  end

  def test_signals
    program = <<~RUBY
      require "redstalk"
      worker = Redstalk::Worker.new(ARGV[0])
      worker.handle(ARGV[1]) { puts "started"; sleep }
      puts worker.run
    RUBY
    id = @client.put("x").id
    IO.popen(["ruby", "-I", "#{__dir__}/../lib", "-e", "$stdout.sync = true\n#{program}", self.class.server.address, @tube]) do |io|
      assert_equal "started\n", Timeout.timeout(20) { io.gets }
      Process.kill("TERM", io.pid)
      assert_raises(Redstalk::TimedOutError) { @client.reserve(timeout: 1) } # it waits for the handler
      Process.kill("INT", io.pid)
      assert_equal "1\n", Timeout.timeout(10) { io.gets }
    end
    assert_predicate $?, :success?
    assert_equal id, @client.reserve(timeout: 5).id
  end
end
