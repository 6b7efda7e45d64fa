# frozen_string_literal: true

require_relative "session"
require_relative "commands"

module Redstalk
  # A client of redstalk or beanstalkd.
  #
  # It connects with the first command, and again when the connection is lost. Threads can share a client: they take turns, and commands that can be
  # repeated share a round trip. After a fork the child connects anew, and holds none of the jobs of its parent. Times are in seconds.
  class Client
    include Commands

    MAX_BURST = 100 # commands that share a round trip
    private_constant :MAX_BURST

    # address: "HOST:PORT", "unix:PATH", several with commas between them, or an Array, of instances that serve the same jobs. tls: true, or an
    # OpenSSL::SSL::SSLContext. wait: how long a call waits for a server; reply_timeout: how long for a reply.
    def initialize(
      address = "127.0.0.1:11300", use: DEFAULT_TUBE, watch: DEFAULT_TUBE, tls: nil, user: nil, secret: nil, name: nil,
      wait: 10, connect_timeout: 5, reply_timeout: 10
    )
      @session = Session.new(
        addresses: addresses_of(address), tls: context_of(tls), use: use, watch: watch, user: user, secret: secret, name: name,
        wait: Text.seconds(wait), connect_timeout: Text.seconds(connect_timeout), reply_timeout: Text.seconds(reply_timeout)
      )
      @lock = Mutex.new
      @calls = Queue.new # that wait for the lock
      @awaited = 0 # jobs for whose end waits are under way
      @pid = Process.pid
    end

    # Opens a client for a block.
    def self.open(*address, **settings)
      client = new(*address, **settings)
      yield client
    ensure
      client&.close
    end

    # Reports whether there is a connection now.
    def connected? = @session.connected?

    # Reports whether jobs are reserved by leases, as of the last connection.
    def leases? = @session.leases?

    # Closes the connection. Jobs that are reserved go back, which is no failure.
    def close
      synchronize do
        give_back unless @session.closed
      ensure
        @session.closed = true
        @session.drop
      end
    end

    # Closes the client for good, from any thread. A reserve that waits raises ClosedError, or returns a job that arrives now.
    def interrupt = @session.interrupt

    # Does not give back at close the jobs that are held now: another client finishes them by their leases.
    def hand_over
      @session.held.clear
    end

    # Carries out requests, and returns them with their results or exceptions.
    def ask_all(requests)
      calls = requests.map { |request| Pending.new(request) }
      calls.each { |call| @calls << call if call.request.shares? }
      calls.each { |call| carry_out(call) until call.done? }
    end

    private

    def ask(request)
      ask_all([request]).first.value
    end

    # Carries out a call, unless another thread has done so, and others that wait.
    def carry_out(call)
      synchronize { together(call.request.shares? ? with_others(call) : [call]) unless call.done? }
    end

    def with_others(call)
      calls = [call]
      while calls.size < MAX_BURST && !@calls.empty?
        other = @calls.pop
        calls << other unless other.equal?(call) || other.done?
      end
      calls
    end

    # Only what the client raises is for all calls; another exception, as of a timeout, is for this thread alone.
    def together(calls)
      open!
      @session.carry_out(calls)
    rescue Error => e
      calls.each { |call| call.fail_with(e) unless call.done? }
    end

    # Lets one thread at a time use the session.
    def synchronize
      @lock.synchronize do
        renew if @pid != Process.pid
        yield
      end
    end

    def with_session
      synchronize do
        open!
        yield @session
      end
    end

    def open!
      raise ClosedError, "the client was closed" if @session.closed
    end

    # Leaves the connection to the parent process.
    def renew
      @pid = Process.pid
      @calls = Queue.new
      @session.forked
    end

    # Releases the jobs that are held by leases, as the end of the connection does with others. That is no failure.
    def give_back
      return unless @session.connected? && leases?

      calls = @session.held.values.map { |job| Pending.new(releasing(job, nil, 0, nil, false)) }
      calls.each_slice(MAX_BURST) { |some| @session.carry_out(some) }
    rescue Error
      nil # they come again after their TTR
    end

    def addresses_of(address)
      addresses = Array(address).flat_map { |part| part.split(",") }.map(&:strip).reject(&:empty?)
      raise ArgumentError, "no address" if addresses.empty?

      addresses.map { |part| part.start_with?("unix:") || part.include?("/") ? part.delete_prefix("unix:") : host_and_port(part) }
    end

    def host_and_port(part)
      match = part.match(/\A(?:\[(?<host>[^\]]+)\]|(?<host>[^:]+))(?::(?<port>\d{1,5}))?\z/) or raise ArgumentError, "address #{part.inspect}"
      [match[:host], (match[:port] || 11300).to_i]
    end

    def context_of(tls)
      return unless tls

      require "openssl"
      return tls unless tls == true

      OpenSSL::SSL::SSLContext.new.tap(&:set_params)
    end
  end
end
