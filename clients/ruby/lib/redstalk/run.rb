# frozen_string_literal: true

require_relative "client"
require_relative "settler"
require_relative "timers"

module Redstalk
  # How many handlers are free.
  class Slots
    def initialize(count)
      @count = count
      @lock = Mutex.new
      @changed = ConditionVariable.new
    end

    # Takes up to so many; waits for the first one for so many seconds.
    def take(most, seconds)
      @lock.synchronize do
        @changed.wait(@lock, seconds) if @count.zero?
        [@count, most].min.tap { |taken| @count -= taken }
      end
    end

    def give(count)
      @lock.synchronize do
        @count += count
        @changed.signal
      end
    end
  end
  private_constant :Slots

  # One call of Worker#run: the threads that fetch and handle jobs, and the shutdown.
  class Run
    TAKE_WAIT = 5 # seconds that a reserve waits
    LAST_SECOND = 1.0 # for handlers after they were cancelled at shutdown
    GRACE = 10.0 # seconds for handlers after their time is over
    EARLY = 0.1 # seconds by which a heartbeat can be early, so that many go out together
    MAX_FETCHED = 100
    LOWER = -3 # the priority of threads that handle jobs. One that computes then has shorter turns, from Ruby 3.3 on
    private_constant :TAKE_WAIT, :LAST_SECOND, :EARLY, :MAX_FETCHED, :LOWER

    # Ends the thread of a handler that has ended it itself.
    class ThreadEnded < StandardError
      def message = "the handler has ended its thread"
    end
    private_constant :ThreadEnded

    attr_reader :beats, :limits

    def initialize(worker, signals)
      @worker, @signals, @report, @pid = worker, signals, worker.report, Process.pid
      @settler = Settler.new(worker.connect, worker.backoff, @report)
      @toucher = worker.connect # touches jobs with a lease
      @fetchers, @threads, @held = [], [], {}.compare_by_identity
      @waiting = {} # clients whose call is to be interrupted at shutdown
      @jobs = Queue.new
      @slots = Slots.new(worker.concurrency)
      @lock = Mutex.new
      @stopping = false
      @stopped = ConditionVariable.new
      @beats = Timers.new(@report, early: EARLY) { |jobs| beat(jobs) }
      @limits = Timers.new(@report) { |jobs| jobs.to_h { |job| [job, time_over(job)] } }
    end

    def stopping? = @stopping

    def serve
      starter = start_thread { start }
      @signals.pop
      stop_fetching
      starter.join
      left = shut_down
      @settler.ended = true
      [@beats, @limits].each(&:stop)
      [*@fetchers, @settler.client, @toucher].each(&:interrupt)
      raise @fault if @fault

      left
    end

    private

    def stop_fetching
      @lock.synchronize do
        @stopping = true
        @stopped.broadcast
        @waiting.each_key(&:interrupt)
      end
    end

    # Starts a thread. What it raises ends the run.
    def start_thread(&work)
      thread = Thread.new do
        work.call
      rescue Exception => e # rubocop:disable Lint/RescueException
        @fault ||= e
        @signals << 0 unless @stopping
      end
      thread.report_on_exception = false
      @lock.synchronize { @threads << thread }
      thread
    end

    # Starts a thread that handles jobs, and another one when a handler has ended it.
    def start_handler(&work)
      start_thread do
        Thread.current.priority = LOWER
        ended = true
        Thread.handle_interrupt(HandlerTimeout => :never, &work)
        ended = false
      rescue Exception # rubocop:disable Lint/RescueException
        ended = false
        raise
      ensure
        start_handler(&work) if ended && Process.pid == @pid
      end
    end

    # Starts the threads: with leases one that fetches for all handlers, else one for each.
    def start
      pause = Settler::FIRST_PAUSE
      pause = try(pause) { unless_stopping(@settler.client, &:capabilities) } until @stopping || @settler.client.connected?
      return if @stopping

      if @settler.client.leases?
        try(0) { @toucher.capabilities } # connects, so that the first heartbeat is not late
        start_thread { fetch_for_all }
        @worker.concurrency.times { start_handler { handle_queue } }
      else
        @worker.concurrency.times { start_handler { fetch_one_by_one } }
      end
    end

    # Does something, and returns how long to wait after its next failure.
    def try(pause)
      yield
      Settler::FIRST_PAUSE
    rescue ClosedError, TimedOutError
      pause
    rescue Error => e
      pause_after(e, pause)
    end

    def pause_after(error, pause)
      unless @stopping
        @report.log(:warn, "no jobs can be fetched: #{Report.named(error)}")
        @lock.synchronize { @stopped.wait(@lock, pause) unless @stopping }
      end
      [2 * pause, Settler::LONGEST_PAUSE].min
    end

    def fetch_for_all
      client = fetcher
      pause = Settler::FIRST_PAUSE
      pause = try(pause) { fetch_many(client) } until @stopping
    ensure
      @jobs.close
    end

    # Takes as many jobs as handlers are free.
    def fetch_many(client)
      count = @slots.take(MAX_FETCHED, 1)
      return if count.zero?

      jobs = []
      begin
        client.watch_only(@worker.tubes) if client.watching != @worker.tubes.keys
        jobs = reserve(client, count)
        client.hand_over
      ensure
        jobs.each { |job| @jobs << job }
        @slots.give(count - jobs.size) if jobs.size < count
      end
    end

    def reserve(client, count)
      unless_stopping(client) { client.reserve_batch(count, timeout: TAKE_WAIT) } || []
    end

    # Does something with a client that is interrupted at shutdown.
    def unless_stopping(client)
      @lock.synchronize do
        return if @stopping

        @waiting[client] = true
      end
      yield client
    ensure
      @lock.synchronize { @waiting.delete(client) }
    end

    def handle_queue
      while (job = @jobs.pop)
        begin
          process(WorkerJob.new(job, @toucher, self))
        ensure
          @slots.give(1)
        end
      end
    end

    def fetcher
      @worker.connect.tap { |client| @lock.synchronize { @fetchers << client } }
    end

    def fetch_one_by_one
      client = fetcher
      pause = Settler::FIRST_PAUSE
      pause = try(pause) { fetch_one(client) } until @stopping
    ensure
      client&.interrupt
    end

    # Takes a job and handles it, on the connection to which it belongs.
    def fetch_one(client)
      job = reserve_by_weight(client)
      if job.nil?
        client.watch_only(@worker.tubes.keys)
        job = reserve(client, 1).first or return
      end
      stats = client.stats_job(job)
      job.info = { "tube" => stats["tube"], "pri" => stats["pri"], "ttr" => stats["ttr"], "failures" => stats["releases"] + stats["timeouts"] }
      process(WorkerJob.new(job, client, self))
    rescue NotFoundError
      nil
    end

    def reserve_by_weight(client)
      weights = @worker.tubes
      return if weights.values.uniq.size < 2

      tube = weights.max_by { |_, weight| rand**(1.0 / weight) }.first
      client.watch_only([tube])
      client.reserve_batch(1).first
    end

    # Calls the handler for a job and settles it.
    def process(job)
      @lock.synchronize { @held[job] = true }
      if @stopping
        @settler.give_back(job)
      elsif in_time?(job)
        handle(job)
      end
    rescue StandardError => e
      @report.log(:error, "job #{job.id} is not settled, so it may come again: #{Report.named(e)}", e)
    ensure
      leave_alone(job)
      @lock.synchronize { @held.delete(job) }
    end

    # Reports whether the job is still held. Touches it if that is not sure. Before that only heartbeats touch: where threads wait long for
    # their turn, one that waits for its own reply would hold up all of them.
    def in_time?(job)
      return true if Redstalk.now - job.touched <= job.ttr

      job.touch
      true
    rescue Error => e
      @report.log(:info, "job #{job.id} arrived too late and is not handled: #{Report.named(e)}")
      false
    end

    def handle(job)
      @beats.add(job, job.touched + job.ttr / 3.0)
      job.set_timeout(@worker.timeout)
      value, error = nil, ThreadEnded.new
      begin
        value = job.interruptible { @worker.call(job) }
        error = nil
      rescue Exception => e # rubocop:disable Lint/RescueException -- SystemExit of a handler is its failure too
        error = e
      ensure # also if the handler ends its thread
        end_child(error) if Process.pid != @pid
        leave_alone(job)
        @settler.settle(job, error, value)
      end
    end

    # Ends a process that a handler has forked and that returns from it: only the parent settles the job.
    def end_child(error)
      done = error.nil? || (error.is_a?(SystemExit) && error.success?)
      @report.log(:error, "a process that a handler has forked ends: #{Report.named(error)}", error) unless done
      $stdout.flush
    ensure
      exit!(done ? 0 : 1)
    end

    def leave_alone(job)
      @beats.remove(job)
      @limits.remove(job)
    end

    # Touches jobs, with one round trip for those that share a client. Returns when to do so again, but for those that are lost.
    def beat(jobs)
      jobs.group_by(&:client).each_with_object({}) do |(client, some), due|
        sent = Redstalk.now
        progress = some.map(&:unsent_progress)
        calls = client.ask_all(some.map(&:touching))
        some.zip(calls, progress) { |job, call, shown| due[job] = next_beat(job, call, sent, shown) }
      end
    end

    # Returns when to touch a job again; nil if it is lost.
    def next_beat(job, call, sent, progress)
      call.value
      job.touched_at(sent, progress)
      job.touched + job.ttr / 3.0
    rescue NotFoundError
      job.lose unless job.settled?
      nil
    rescue Error => e
      @report.log(:warn, "cannot touch job #{job.id}: #{Report.named(e)}")
      over = job.touched + job.ttr
      return [Redstalk.now + [job.ttr / 10.0, 1].min, over].min if Redstalk.now < over

      job.cancel("lost") unless job.settled?
      nil
    end

    # Ends a handler whose time is over, and later gives up on it.
    def time_over(job)
      unless job.cancelled?
        job.cancel("timeout")
        return Redstalk.now + @worker.grace
      end
      @report.log(:error, "the handler of job #{job.id} of tube #{job.tube} ignores that its time is over; it takes up a thread until it returns")
      @beats.remove(job)
      Thread.new { @settler.settle(job, HandlerTimeout.new) }
      nil
    end

    # Returns the number of handlers that did not return in time.
    def shut_down
      return 0 if join(@worker.shutdown_timeout, until_signal: true)

      held.each { |job| job.cancel("shutdown") }
      return 0 if join(LAST_SECOND)

      @settler.ended = true
      left = held
      left.reject(&:settled?).map { |job| Thread.new { @settler.give_back(job) } }.each(&:join)
      left.size
    end

    def held = @lock.synchronize { @held.keys }

    # Waits until all threads have ended.
    def join(seconds, until_signal: false)
      deadline = Redstalk.now + seconds
      until (thread = @lock.synchronize { @threads.find(&:alive?) }).nil?
        return false if Redstalk.now > deadline || (until_signal && !@signals.empty?)

        thread.join(0.05)
      end
      true
    end
  end
  private_constant :Run
end
