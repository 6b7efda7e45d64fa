# frozen_string_literal: true

require_relative "errors"

module Redstalk
  # A job that was reserved or peeked.
  #
  # lease: a token that grows with each delivery; nil with beanstalkd. info: what redstalk says about a reserved job: tube, pri, ttr, age, deliveries,
  # failures, and if there are any key, retry, keep, meta, trace, reason and so on; empty with beanstalkd. reserved_at: Redstalk.now before
  # it was reserved. connection: to which the job belongs without a lease.
  Job = Struct.new(:id, :body, :lease, :info, :reserved_at, :connection, keyword_init: true)

  # What a put returns. The state is nil if the job is new. If its key was taken, it is the state of the job that has the id and the key:
  # READY, DELAYED, RESERVED, BURIED, or GONE.
  Inserted = Struct.new(:id, :state) do
    def to_s = id.to_s
  end

  # The answer to a command. jobs: an Array of [id, lease, body, info] of a reserve or peek.
  Reply = Struct.new(:word, :args, :body, :jobs) do
    # Returns the exception for a reply that is not the expected one.
    def error
      line = [word, *args].join(" ")
      (REFUSALS[word] || UnknownResponseError).new(line)
    end
  end
  private_constant :Reply

  # A command, and how to read its reply.
  #
  # tube: to be used before. repeat: it can be sent again if its reply is lost. wait: seconds that the server can take, beside the reply
  # timeout. needs: capabilities, each with the feature for the error. plain: the line for a server that lacks one of them.
  # connection: the only one on which it makes sense. fails_over: to another address if this server drains.
  class Request
    attr_reader :tube, :repeat, :wait, :connection, :fails_over

    def initialize(line, body: nil, tube: nil, repeat: false, wait: 0, needs: [], plain: nil, connection: nil, fails_over: false, &read)
      @line, @body, @tube, @repeat, @wait = line, body, tube, repeat, wait
      @needs, @plain, @connection, @fails_over, @read = needs, plain, connection, fails_over, read
    end

    # Reports whether it can share a round trip with commands of other threads.
    def shares? = repeat && !tube && !connection && wait.zero?

    # Returns the bytes of the body.
    def size = @body ? @body.bytesize : 0

    def verb = @line[/\S+/]

    # Returns what is sent to a server with these capabilities.
    def encoded(capabilities)
      data = "#{line(capabilities)}\r\n".b
      data << @body << "\r\n" if @body
      data
    end

    # Returns what a reply means.
    def result(reply)
      @read.call(reply)
    rescue BadFormatError => e
      raise BadFormatError, "#{e.message} (#{verb})"
    rescue ArgumentError, TypeError, NoMethodError, IndexError, JSON::ParserError => e
      raise UnknownResponseError, "#{reply.word} #{reply.args.join(" ")}: #{e.message}"
    end

    private

    def line(capabilities)
      missing = @needs.find { |capability, _| !capabilities.include?(capability) }
      return @line unless missing

      @plain || raise(UnsupportedError, missing.last)
    end
  end
  private_constant :Request

  # A request, and its result or exception when it is done.
  class Pending
    attr_reader :request, :error

    def initialize(request)
      @request = request
      @done = false
    end

    def done? = @done

    # Takes the reply. If that cannot be understood, the connection is of no more use.
    def answer(reply)
      succeed(@request.result(reply))
    rescue Error => e
      fail_with(e)
      raise if e.is_a?(UnknownResponseError)
    end

    def succeed(result)
      @result = result
      @done = true
    end

    def fail_with(error)
      @error = error
      @done = true
    end

    def value
      raise @error if @error

      @result
    end
  end
  private_constant :Pending
end
