# frozen_string_literal: true

require "socket"
require "io/wait"
require_relative "request"

module Redstalk
  # Raised inside the client when a connection is of no more use.
  class Lost < StandardError; end
  private_constant :Lost

  # A connection, which sends data and reads replies.
  class Connection
    CHUNK = 1 << 18
    MAX_LINE = 1 << 20
    MAX_BODY = 1 << 30
    private_constant :CHUNK, :MAX_LINE, :MAX_BODY

    # The address is [host, port], or the path of a Unix socket.
    def initialize(address, tls, timeout)
      @buffer = String.new(encoding: Encoding::BINARY)
      @tls = tls
      guard do
        @socket = @stream = address.is_a?(Array) ? Socket.tcp(*address, connect_timeout: timeout) : UNIXSocket.new(address)
        @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if address.is_a?(Array)
        encrypt((address.first if address.is_a?(Array)), timeout) if tls
      end
    end

    def write(data, timeout)
      guard do
        until data.empty?
          case written = @stream.write_nonblock(data, exception: false)
          when :wait_writable then @socket.wait_writable(timeout) or raise Lost, "the server does not read"
          when :wait_readable then @socket.wait_readable(timeout) or raise Lost, "the server does not answer"
          else data = data.byteslice(written..)
          end
        end
      end
    end

    # Reports whether the server has closed the connection; what it sends unasked is an error too.
    def stale?
      return true unless @buffer.empty?
      return false unless @socket.wait_readable(0)

      guard { @stream.read_nonblock(1, exception: false) } != :wait_readable # else they are only TLS's own messages
    rescue Lost
      true
    end

    # Returns the next reply. Each part of it can take that many seconds.
    def read(timeout)
      word, *args = line(timeout).split(" ")
      case word
      when "OK" then Reply.new(word, args, body(args[0], timeout))
      when "ENDED" then Reply.new(word, args, body(args[2], timeout)) # ID HOW BYTES
      when "RESERVED", "LEASED", "FOUND" then Reply.new(word, args, nil, [job(args, timeout)])
      when "RESERVED_BATCH" then Reply.new(word, args, nil, Array.new(number(args[0])) { job(line(timeout).split(" ").drop(1), timeout) })
      else Reply.new(word.to_s, args)
      end
    end

    # Half-closes the connection, from any thread: a reserve that waits ends, or still returns its job.
    def finish
      @socket.shutdown(Socket::SHUT_WR)
    rescue SystemCallError, IOError
      nil
    end

    # Closes the descriptor of this process. Of a connection that a parent process uses too, nothing else is closed.
    def close
      @socket.close
    rescue SystemCallError, IOError
      nil
    end

    private

    def encrypt(host, timeout)
      @stream = OpenSSL::SSL::SSLSocket.new(@socket, @tls)
      @stream.hostname = host if host
      until (state = @stream.connect_nonblock(exception: false)) == @stream
        ready = state == :wait_readable ? @socket.wait_readable(timeout) : @socket.wait_writable(timeout)
        raise Lost, "no TLS in time" unless ready
      end
      @stream.post_connection_check(host) if host && @tls.verify_mode != OpenSSL::SSL::VERIFY_NONE
    end

    def line(timeout)
      until (at = @buffer.index("\r\n"))
        raise UnknownResponseError, "a line is too long" if @buffer.bytesize > MAX_LINE

        fill(timeout)
      end
      @buffer.slice!(0, at + 2).chomp("\r\n")
    end

    # Reads the job whose line ends in ID [LEASE] BYTES [INFO-BYTES].
    def job(args, timeout)
      id = number(args[0])
      lease = args[1] if args.size > 2
      sizes = args.drop(lease ? 2 : 1)
      [id, lease, body(sizes[0], timeout), (body(sizes[1], timeout) if sizes[1])]
    end

    def body(size, timeout)
      size = number(size)
      raise UnknownResponseError, "a body of #{size} bytes" if size > MAX_BODY

      fill(timeout) while @buffer.bytesize < size + 2
      body = @buffer.slice!(0, size)
      raise UnknownResponseError, "a body without its end" if @buffer.slice!(0, 2) != "\r\n"

      body
    end

    def number(text)
      raise UnknownResponseError, "#{text.inspect} is no number" unless text&.match?(/\A\d{1,19}\z/)

      text.to_i
    end

    def fill(timeout)
      guard do
        case data = @stream.read_nonblock(CHUNK, exception: false)
        when :wait_readable then @socket.wait_readable(timeout) or raise Lost, "no reply in time"
        when :wait_writable then @socket.wait_writable(timeout) or raise Lost, "the server does not read"
        when nil then raise Lost, "the server closed the connection"
        else @buffer << data
        end
      end
    end

    def guard
      yield
    rescue SystemCallError, IOError, SocketError, *(@tls ? [OpenSSL::SSL::SSLError] : []) => e
      raise Lost, e.message
    end
  end
  private_constant :Connection
end
