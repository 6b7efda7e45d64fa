# frozen_string_literal: true

require_relative "run"

module Redstalk
  # Takes jobs from tubes and calls their handlers, in threads.
  #
  #     worker = Redstalk::Worker.new("127.0.0.1:11300")
  #     worker.handle("mails", type: "welcome") { |job| puts job.data }
  #     worker.run
  class Worker
    DEFAULT_TIMEOUT = 1800
    private_constant :DEFAULT_TIMEOUT

    Handler = Struct.new(:call, :timeout)
    private_constant :Handler

    # tubes: those that have a handler, each with its weight. For the run, as what follows.
    attr_reader :tubes, :concurrency, :timeout, :shutdown_timeout, :backoff, :report, :grace

    # timeout: how many seconds a handler can run, unless it calls set_timeout of its job; 0 is no limit. shutdown_timeout: how long the worker
    # waits for its handlers at the end. backoff: after failures, for jobs without a retry list: see Backoff. logger: one as that of Ruby or Rails;
    # without one, warnings and errors go to the standard error. settings: those of a Client.
    def initialize(
      address = "127.0.0.1:11300", concurrency: 10, timeout: DEFAULT_TIMEOUT, shutdown_timeout: 25, backoff: Backoff.exponential, logger: nil,
      **settings
    )
      raise ArgumentError, "concurrency #{concurrency.inspect}" unless concurrency.is_a?(Integer) && concurrency.positive?
      raise ArgumentError, "a backoff has a method call" unless backoff.respond_to?(:call)

      @address, @settings = address, settings
      @concurrency, @backoff = concurrency, backoff
      @timeout, @shutdown_timeout = Text.seconds(timeout), Text.seconds(shutdown_timeout)
      @report, @grace = Report.new(logger), Run::GRACE
      @tubes, @handlers = {}, {}
      @signals = Queue.new
      connect # a wrong setting fails here
    end

    # Sets the handler of a tube: of its jobs with this type, or of all that have no other. It is a block, or something with call.
    #
    # If the handlers of tubes have weights, jobs come from them in proportion while all have jobs. timeout: instead of that of the worker.
    def handle(tube, handler = nil, type: nil, weight: nil, timeout: nil, &block)
      handler ||= block
      raise ArgumentError, "a handler has a method call" unless handler.respond_to?(:call)
      raise ArgumentError, "weight #{weight.inspect}" unless weight.nil? || (weight.is_a?(Integer) && weight.positive?)

      @tubes[Text.tube(tube)] = weight || @tubes[tube.to_s] || 1
      @handlers[[tube.to_s, type&.to_s]] = Handler.new(handler, timeout && Text.seconds(timeout))
      self
    end

    # Takes jobs until SIGTERM or SIGINT comes, or stop is called. Returns the number of handlers that did not return in time.
    #
    # Then it takes no more jobs, tells the handlers, and waits for them, up to shutdown_timeout. After that, or at a second signal, it cancels their
    # jobs, and a second later gives these back: they are ready at once, and have not failed.
    #
    # What a handler raises is a failure of its job alone. While no jobs can be fetched, that is logged. If the worker cannot work at all, as when no
    # thread can be started, it ends with that exception.
    def run(signals: %w[INT TERM])
      raise ArgumentError, "a worker needs handlers" if @handlers.empty?

      before = signals.to_h { |name| [name, trap(name) { @signals << name }] }
      Run.new(self, @signals).serve
    ensure
      before&.each { |name, handler| trap(name, handler || "DEFAULT") }
    end

    # Does what the first signal does, from any thread.
    def stop
      @signals << "stop"
      nil
    end

    # Returns a new client.
    def connect = Client.new(@address, **@settings)

    # Calls the handler of a job.
    def call(job)
      type = job.type if @handlers.any? { |(tube, one), _| one && tube == job.tube }
      handler = (type && @handlers[[job.tube, type]]) || @handlers[[job.tube, nil]]
      raise Skip, "no handler for this job: #{job.type ? "type #{job.type}" : "it has no type"}" if handler.nil?

      job.set_timeout(handler.timeout) if handler.timeout
      handler.call.call(job)
    end
  end
end
