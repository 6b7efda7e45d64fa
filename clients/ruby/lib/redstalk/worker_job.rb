# frozen_string_literal: true

require "json"
require_relative "errors"
require_relative "text"

module Redstalk
  # Raised by a handler: bury the job, for this reason.
  class Skip < StandardError; end

  # Raised by a handler: deliver the job again after so many seconds, at least one. That is no failure.
  class Snooze < StandardError
    attr_reader :seconds

    def initialize(seconds = 1)
      super("snooze")
      @seconds = seconds
    end
  end

  # Raised by a handler: the job is ready again at once, and goes on from its last checkpoint. That is no failure.
  class NotFinished < StandardError; end

  # Raised in a handler when its time is over. It is no StandardError, so that rescue without a class does not take it.
  class HandlerTimeout < Exception # rubocop:disable Lint/InheritException
    def message = "timeout"
  end

  # A job as a handler gets it.
  class WorkerJob
    SHORTEST_TTR = 1
    BETWEEN_PROGRESS = 1.0 # seconds from one touch that sends a progress to the next, at least
    private_constant :SHORTEST_TTR, :BETWEEN_PROGRESS

    # lease: a fencing token: it grows with each delivery; nil with beanstalkd. tube, priority, ttr: nil if the server has not said it.
    attr_reader :id, :body, :lease, :info, :tube, :priority, :ttr, :failures, :cause

    # job: as reserved. client: that finishes and touches it. For the worker.
    attr_reader :job, :client, :touched

    def initialize(job, client, run = nil)
      @id, @body, @lease, @info, @job, @client, @run = job.id, job.body, job.lease, job.info, job, client, run
      # What the worker needs, whatever the handler does with info.
      @tube, @priority, @failures = info["tube"], info["pri"], info.fetch("failures", 0)
      @ttr = [info.fetch("ttr", SHORTEST_TTR), SHORTEST_TTR].max
      @retries, @kept = !info["retry"].to_s.empty?, info.key?("keep")
      @checkpoint = delivered(info)
      @touched = job.reserved_at # when the TTR started, or earlier
      @shown = 0.0 # when a progress was sent last
      @lock = Mutex.new
      @ended = ConditionVariable.new
    end

    # The type of a job with a type; nil of others.
    def type = envelope["type"]

    # The data of a job with a type; nil of others.
    def data = envelope["data"]

    # How often the job was delivered, with this time.
    def deliveries = info["deliveries"]

    def key = info["key"]

    # The headers of the put.
    def meta = info.fetch("meta", {})

    def trace = info["trace"]

    def group = info["group"]

    # The batch of which the job is a member. The server is asked.
    def batch = @batch ||= client.stats_job(id)["batch"]

    # Why the job failed the last time; empty if it has not, or with beanstalkd.
    def reason = info.fetch("reason", "")

    # Reports whether the server has waits for the time after a failure.
    def retries? = @retries

    # Reports whether what becomes of the job is kept.
    def kept? = @kept

    # Reports whether the handler is to end, for a cause: "lost" or "deleted": the job is no longer held; "timeout": its time is over;
    # "shutdown": the worker ends.
    def cancelled? = !cause.nil?

    # Waits until the handler is to end, for at most so many seconds, and returns the cause.
    def wait_cancelled(seconds)
      deadline = Redstalk.now + seconds
      @lock.synchronize do
        while @cause.nil? && (left = deadline - Redstalk.now).positive?
          @ended.wait(@lock, left)
        end
        @cause
      end
    end

    # Reports whether the worker is told to stop: a handler that takes long saves a checkpoint and raises NotFinished then.
    def stopping? = @run ? @run.stopping? : false

    # Changes how long the handler can still run, from now on; 0 is no limit.
    def set_timeout(seconds)
      seconds = Text.seconds(seconds)
      return if @run.nil? || cancelled?

      @run.limits.remove(self)
      @run.limits.add(self, Redstalk.now + seconds) if seconds.positive?
    end

    # Says how far the job is: "4711/10000", "47%", or any text of up to 256 bytes. Call it as often as you like: it never waits, and the last text is
    # sent about once a second, and when the handler fails.
    def progress(text)
      @lock.synchronize { @progress = text.to_s.dup }
      @run&.beats&.hasten(self, @shown + BETWEEN_PROGRESS)
    end

    # Saves a value as JSON, up to 64 KiB, for the next delivery of the job if this one does not end it; nil removes it.
    #
    # NotFoundError: the job is no longer held, nothing is saved, and the handler is told to end. UnsupportedError: the server saves no checkpoints.
    def checkpoint(value)
      data = value.nil? ? "" : JSON.generate(value)
      raise NotFoundError, "the job is no longer held" if %w[lost deleted].include?(cause)

      sent = Redstalk.now
      client.checkpoint(job, data)
      @lock.synchronize { @checkpoint, @touched = data, [@touched, sent].max }
      nil
    rescue NotFoundError
      lose
      raise
    end

    # Returns the value that was saved last, by this delivery or one before; nil if there is none.
    def last_checkpoint
      @checkpoint ||= client.get_checkpoint(id)
      JSON.parse(@checkpoint) unless @checkpoint.empty?
    rescue NotFoundError, UnsupportedError
      @checkpoint = ""
      nil
    end

    # Starts the TTR again. A worker does that by itself.
    def touch
      sent, progress = Redstalk.now, @progress
      client.ask_all([touching]).each(&:value)
      touched_at(sent, progress)
    end

    # Returns the command that starts the TTR again, and sends the progress. For the worker, as what follows.
    def touching
      progress = @progress
      @shown = Redstalk.now if progress
      client.touching(job, progress)
    end

    # Takes note of a touch that was sent then.
    def touched_at(sent, progress)
      @lock.synchronize do
        @touched = [@touched, sent].max
        @progress = nil if @progress.equal?(progress)
      end
      nil
    end

    def unsent_progress = @progress

    # Sends the progress that is left, before the delivery ends.
    def send_progress
      touch if @progress
    rescue Error
      nil
    end

    # Reports whether the caller is to settle the job: the first one is.
    def claim
      @lock.synchronize { @settled ? false : @settled = true }
    end

    def settled? = @settled

    # Makes the handler of a job end that is no longer held.
    def lose
      client.stats_job(id)
      cancel("lost")
    rescue NotFoundError
      cancel("deleted")
    rescue Error
      cancel("lost")
    end

    # Makes the handler end, unless it is to end already. It is interrupted only when its time is over.
    def cancel(cause)
      @lock.synchronize do
        return if @cause

        @cause = cause
        @ended.broadcast
        @thread&.raise(HandlerTimeout) if cause == "timeout"
      end
    end

    # Calls the handler in this thread, in which HandlerTimeout is otherwise masked. Afterwards it is raised no more.
    def interruptible
      @lock.synchronize { @thread = Thread.current }
      Thread.handle_interrupt(HandlerTimeout => :immediate) { yield }
    ensure
      @lock.synchronize { @thread = nil }
      discard_interrupt
    end

    private

    # The class is no argument of pending_interrupt?, since that can crash Ruby 3.1.
    def discard_interrupt
      Thread.handle_interrupt(HandlerTimeout => :immediate) { Thread.pass } if Thread.pending_interrupt?
    rescue HandlerTimeout
      nil
    end

    def envelope
      @envelope ||= begin
        value = JSON.parse(body, max_nesting: Text::MAX_NESTING)
        value.is_a?(Hash) && value["type"].is_a?(String) ? value : {}
      rescue JSON::ParserError, EncodingError
        {}
      end
    end

    # Returns the checkpoint that came with a job; empty if it has none, and nil if that is not known.
    def delivered(info)
      return info["checkpoint"].unpack1("m") if info["checkpoint"]

      "" unless info.empty? || info.key?("checkpoint-bytes")
    end
  end
end
