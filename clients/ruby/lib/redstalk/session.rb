# frozen_string_literal: true

require "set"
require_relative "connection"
require_relative "text"

module Redstalk
  # The state of a client: where it is connected, and what it uses, watches and holds. It connects again, and repeats what can be repeated.
  class Session
    AVOID = 10.0 # seconds for which an address that failed is tried only after the others
    FIRST_PAUSE = 0.05
    LONGEST_PAUSE = 2.0
    MAX_HELD = 1 << 14
    private_constant :AVOID, :FIRST_PAUSE, :LONGEST_PAUSE, :MAX_HELD

    attr_reader :used, :watched, :held, :capabilities, :connection
    attr_accessor :closed

    def initialize(addresses:, tls:, use:, watch:, user:, secret:, name:, wait:, connect_timeout:, reply_timeout:)
      @addresses, @tls = addresses.shuffle, tls
      @used = Text.tube(use)
      @watched = Array(watch).to_h { |tube| [Text.tube(tube), 0] } # weights; 0: none
      @hello = []
      @hello << "auth #{Text.word("user", user)} #{Text.word("secret", secret)}" if user
      @hello << "client #{Text.word("name", name)}" if name
      @wait, @connect_timeout, @reply_timeout = wait, connect_timeout, reply_timeout
      @avoid = Hash.new(0.0)
      @held = {} # by id: reserved jobs that are not finished
      @capabilities = Set.new
      @connection = 0 # the number of the connection
      @accepted = false # whether it has put a job: if its server drains, its address can lead to another one
      @closed = false
    end

    def connected? = !@io.nil?

    # Reports whether jobs are reserved by leases; known when connected.
    def leases? = @capabilities.include?("lease") && @capabilities.include?("info")

    # Sends requests in one packet until each is answered, or cannot be repeated. They have the same tube.
    def carry_out(calls)
      deadline = nil # from the first loss on
      losses = 0
      until (left = calls.reject(&:done?)).empty?
        connect(deadline)
        began = Redstalk.now
        next if attempt(left)

        now = Redstalk.now
        deadline, losses = now + @wait, 0 if deadline.nil? || now - began > @wait
        raise UnavailableError, "the connection was lost again and again" if now > deadline

        sleep([losses * FIRST_PAUSE, LONGEST_PAUSE].min)
        losses += 1
      end
    end

    # Connects to one of the addresses, with growing waits, unless connected.
    def connect(deadline = nil)
      deadline ||= Redstalk.now + @wait
      pause = FIRST_PAUSE
      until connected?
        failures = dial_any or return
        raise UnavailableError, "no server is available: #{failures.join("; ")}" if Redstalk.now + pause > deadline

        sleep(pause * rand(0.5..1.0))
        pause = [2 * pause, LONGEST_PAUSE].min
      end
    end

    def use(tube)
      command("use #{Text.tube(tube)}", "USING")
      @used = @using = tube
    end

    # Watches these tubes, each with a weight, and no others.
    def watch_only(tubes)
      before = @watched
      tubes = tubes.to_h { |tube, weight| [Text.tube(tube), Integer(weight)] }
      @watched = tubes.empty? ? { DEFAULT_TUBE => 0 } : tubes
      update_watches if connected? && @watching != @watched
      connect
    rescue Lost
      connect
    rescue Error
      @watched = before
      raise
    end

    # Remembers a reserved job without its body, so that it can be finished by its id.
    def hold(job)
      @held[job.id] = Job.new(**job.to_h, body: nil)
      @held.delete(@held.first.first) if @held.size > MAX_HELD
    end

    def forget(id, lease)
      @held.delete(id) if @held[id] && @held[id].lease == lease
    end

    def drop
      @io&.close
      @io = nil
    end

    # Forgets the connection and the jobs of the parent process.
    def forked
      drop
      @held.clear
    end

    # Makes a command that waits for its reply end, from any thread.
    def interrupt
      @closed = true
      @io&.finish
    end

    # Sends one line that can be repeated.
    def command(line, word)
      call = Pending.new(Request.new(line, repeat: true) { |reply| reply.word == word ? nil : raise(reply.error) })
      carry_out([call])
      call.value
    end

    private

    # Sends requests and takes their replies, and reports whether the connection was not lost. Some can be left to be sent again.
    def attempt(calls)
      sent, kept = [], false
      use_before(calls.first.request.tube)
      raise Lost, "the server closed the connection" if calls.any? { |call| !call.request.repeat } && @io.stale?

      data = encoded(calls)
      sent = calls.reject(&:done?)
      @io.write(data, @reply_timeout) unless sent.empty?
      kept = take_replies(sent)
      true
    rescue Lost => e
      lost(sent, e)
      false
    rescue UnknownResponseError => e
      sent.shift&.fail_with(e)
      lost(sent, e)
      true
    ensure
      drop unless kept # interrupted in the middle, the next reply would be taken for another one
    end

    # Takes a reply for each request, and reports whether the connection is to be kept.
    def take_replies(sent)
      kept = true
      until sent.empty?
        call = sent.first
        reply = @io.read(@reply_timeout + call.request.wait)
        if moves_on?(call, reply)
          kept = false
        else
          call.answer(reply)
        end
        sent.shift
      end
      kept
    end

    # Reports whether a put is to be sent to another server, as this one drains.
    def moves_on?(call, reply)
      @accepted ||= call.request.fails_over && reply.word == "INSERTED"
      reply.word == "DRAINING" && call.request.fails_over && (leases? || @held.empty?) && (another? || @accepted)
    end

    def use_before(tube)
      return if tube.nil? || tube == @using

      exchange("use #{tube}", "USING")
      @using = tube
    end

    def encoded(calls)
      calls.each_with_object(String.new(encoding: Encoding::BINARY)) do |call, data|
        if call.request.connection && call.request.connection != @connection
          raise NotFoundError, "the connection to which the job belonged was lost"
        end

        data << call.request.encoded(@capabilities)
      rescue Error => e
        call.fail_with(e)
      end
    end

    # Fails what cannot be repeated.
    def lost(sent, error)
      sent.each do |call|
        if call.done? || call.request.repeat
          next
        elsif @closed
          call.fail_with(ClosedError.new("the client was closed"))
        else
          call.fail_with(UnknownOutcomeError.new("#{call.request.verb}: the connection was lost, so it may have been carried out: #{error.message}"))
        end
      end
    end

    # Returns nothing when connected, or what has failed.
    def dial_any
      order = @addresses.sort_by.with_index { |address, at| [[@avoid[address] - Redstalk.now, 0].max, at] }
      order.filter_map do |address|
        raise ClosedError, "the client was closed" if @closed

        dial(address)
        return
      rescue Lost => e
        @avoid[address] = Redstalk.now + AVOID
        "#{Array(address).join(":")}: #{e.message}"
      end
    end

    def dial(address)
      @address = address
      @io = Connection.new(address, @tls, @connect_timeout)
      ready = @accepted = false
      @using, @watching = DEFAULT_TUBE, { DEFAULT_TUBE => 0 }
      @hello.each { |line| introduce(line) }
      reply = ask("capabilities")
      @capabilities = reply.word == "OK" ? Text.names(reply.body).to_set : Set.new
      @connection += 1
      @held.clear unless leases?
      update_watches
      ready = true
    ensure
      drop unless ready
    end

    def introduce(line)
      reply = ask(line)
      return unless line.start_with?("auth ")
      raise UnsupportedError, "auth" if reply.word == "UNKNOWN_COMMAND"
      raise UnauthorizedError, "the user or the secret is wrong" if reply.word == "UNAUTHORIZED"
    end

    # Makes the connection watch what the client watches.
    def update_watches
      ready = false
      @watched.each do |tube, weight|
        next if @watching[tube] == weight

        exchange("watch #{tube}#{" #{weight}" if weight.positive? && @capabilities.include?("weights")}", "WATCHING")
        @watching[tube] = weight
      end
      (@watching.keys - @watched.keys).each do |tube|
        exchange("ignore #{tube}", "WATCHING")
        @watching.delete(tube)
      end
      ready = true
    ensure
      drop unless ready
    end

    def exchange(line, word)
      reply = ask(line)
      raise reply.error if reply.word != word
    end

    def ask(line)
      @io.write("#{line}\r\n".b, @reply_timeout)
      @io.read(@reply_timeout)
    end

    # Avoids the current address, and reports whether another one has not failed recently.
    def another?
      @avoid[@address] = Redstalk.now + AVOID
      @addresses.any? { |address| @avoid[address] < Redstalk.now }
    end
  end
  private_constant :Session
end
