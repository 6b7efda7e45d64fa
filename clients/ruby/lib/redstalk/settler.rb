# frozen_string_literal: true

require_relative "worker_job"
require_relative "backoff"

module Redstalk
  # Does what the result of a handler means: deletes, releases or buries each job once.
  class Settler
    FIRST_PAUSE = 0.1
    LONGEST_PAUSE = 5.0
    MAX_RESULT = 64 << 10
    # After these the next attempt can succeed; everything else is refused for good.
    PASSING = [UnavailableError, UnknownOutcomeError, UnknownResponseError, InternalError, OutOfMemoryError, DrainingError].freeze
    private_constant :MAX_RESULT, :PASSING

    attr_reader :client
    attr_writer :ended

    def initialize(client, backoff, report)
      @client, @backoff, @report = client, backoff, report # the client is for jobs with a lease; others belong to their own
      @ended = false # there is no time for further attempts
    end

    # Does what the result of the handler means, unless the job is settled.
    def settle(job, error, value = nil)
      return unless job.claim
      return @report.log(:info, "job #{job.id} was deleted before its handler returned") if job.cause == "deleted"
      return @report.log(:warn, "job #{job.id} was lost before its handler returned: #{error ? Report.named(error) : "it has not failed"}") if job.cause == "lost"

      job.send_progress if error
      carry_out(job, &meaning(job, error, value))
    end

    # Makes the job ready again, which is no failure, unless it is settled.
    def give_back(job)
      carry_out(job, &returning(job)) if job.claim
    end

    private

    # Returns what the result means. User code, such as a backoff, is called here, once.
    def meaning(job, error, value)
      case error
      when nil then done(job, value)
      when Skip then skipped(job, error)
      when Snooze
        wait = Text.delay([error.seconds, 1].max)
        -> { client_of(job).release(job.job, priority: job.priority, delay: wait, failure: false) }
      when NotFinished then returning(job)
      else job.cause == "shutdown" ? returning(job) : failure(job, error)
      end
    rescue Exception => e # rubocop:disable Lint/RescueException -- of a class of the user
      failure(job, e)
    end

    def skipped(job, error)
      reason = Report.text_of(error)
      @report.log(:warn, "job #{job.id} skipped: #{reason}")
      -> { client_of(job).bury(job.job, priority: job.priority, reason: reason) }
    end

    # Returns what finishes the job with a result, or deletes it if nothing is kept of it.
    def done(job, value)
      client = client_of(job)
      return -> { client.delete(job.job) } if value.nil? || !job.kept?

      result, fault = encoded(value)
      @report.log(:warn, "job #{job.id} is done without its result: #{fault}") if fault
      lambda do
        client.finish(job.job, result)
      rescue NotKeptError, UnsupportedError
        client.delete(job.job)
      end
    end

    # Returns a result as it is sent, or nothing and why it cannot be.
    def encoded(value)
      result = binary?(value) ? value : JSON.generate(json(value))
      result.bytesize <= MAX_RESULT ? [result, nil] : ["", "it has #{result.bytesize} bytes"]
    rescue Exception => e # rubocop:disable Lint/RescueException -- of a class of the user
      ["", Report.named(e)]
    end

    def binary?(value) = value.is_a?(String) && value.encoding == Encoding::BINARY

    # A Hash, an Array and so on; JSON would make a text like #<Object> of all else.
    def json(value)
      case value
      when Hash, Array, String, Symbol, Numeric, true, false then value
      else raise TypeError, "#{value.class} is no JSON"
      end
    end

    def failure(job, error)
      reason = job.cause == "timeout" ? "timeout" : Report.named(error)
      @report.log(:warn, "job #{job.id} failed: #{reason}", error)
      wait = job.retries? ? 0 : wait_of(job)
      client = client_of(job)
      return -> { client.bury(job.job, priority: job.priority, reason: reason) } if wait.nil?

      -> { client.release(job.job, priority: job.priority, delay: wait, reason: reason) }
    end

    # Returns what the backoff says, or the default one if it raises an exception or its result is of no use.
    def wait_of(job)
      wait = @backoff.call(job.failures + 1)
      wait && Text.delay(wait)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises
      @report.log(:error, "the backoff of the worker has failed, so job #{job.id} waits as by default: #{Report.named(e)}", e)
      Text.delay(Backoff.exponential.call(job.failures + 1))
    end

    def returning(job)
      return -> { client.release(job.job, priority: job.priority, failure: false) } if job.lease

      -> { job.client.interrupt } # the job goes back with its connection
    end

    def client_of(job) = job.lease ? client : job.client

    # Settles the job. With a lease tries again until the TTR ends, unless the server refuses for good.
    def carry_out(job)
      pause = FIRST_PAUSE
      begin
        yield
      rescue StandardError => e
        return given_up(job, e) if !PASSING.include?(e.class) || job.lease.nil? || @ended || Redstalk.now > job.touched + job.ttr

        sleep(pause)
        pause = [2 * pause, LONGEST_PAUSE].min
        retry
      end
    end

    def given_up(job, error)
      level = PASSING.include?(error.class) || error.is_a?(ClosedError) ? :warn : :error
      level = :info if error.is_a?(NotFoundError) # somebody else has settled or deleted it
      @report.log(level, "cannot settle job #{job.id}, so it may come again: #{Report.named(error)}")
    end
  end
  private_constant :Settler
end
