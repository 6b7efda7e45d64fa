# frozen_string_literal: true

require "minitest/autorun"
require "socket"
require "tmpdir"
require "fileutils"
$LOAD_PATH.unshift File.expand_path("../lib", __dir__)
require "redstalk"

# Takes messages, so that they are not printed.
class Log
  attr_reader :lines

  def initialize = @lines = Queue.new

  %i[info warn error].each { |level| define_method(level) { |message| @lines << "#{level}: #{message}" } }
end

# Servers for tests: processes on free loopback ports.
class Server
  PROGRAM = ENV["REDSTALKD"] || File.expand_path("../../../bin/redstalkd", __dir__)
  ENGINES = %w[memory embedded redis].freeze

  attr_reader :port, :directory, :pid
  attr_accessor :behind

  @locks = []

  # A port that belongs to this process until it ends, also while its server is down. The system gives higher ports to
  # outgoing connections. The UDP port with the same number, which no server here uses, is the lock that all tests of this
  # project respect.
  def self.free_port
    port = rand(12_000...22_000)
    lock = UDPSocket.new
    lock.bind("127.0.0.1", port)
    TCPServer.new("127.0.0.1", port).close
    @locks << lock
    port
  rescue Errno::EADDRINUSE
    lock.close
    retry
  end

  def self.redis = new("redis-server", "--bind", "127.0.0.1", "--port", "%<port>d", "--save", "", "--dir", "%<dir>s")

  # Starts redstalkd with an engine, or beanstalkd. With a block, stops it after that.
  def self.start(engine = "memory", *options)
    server = command(engine, options)
    return server unless block_given?

    begin
      yield server
    ensure
      server.stop
    end
  end

  def self.command(engine, options)
    return new("beanstalkd", "-l", "127.0.0.1", "-p", "%<port>d") if engine == "beanstalkd"

    behind = redis if engine == "redis"
    store = { "memory" => "memory:", "embedded" => "embedded:%<dir>s/data" }[engine] || "redis://127.0.0.1:#{behind.port}/0"
    new(PROGRAM, "-p", "%<port>d", "--store", store, *options).tap { |server| server.behind = behind }
  end
  private_class_method :command

  # Words of the command can have %<port>d and %<dir>s.
  def initialize(*command)
    @port = Server.free_port
    @directory = Dir.mktmpdir("redstalk-ruby-")
    @command = command.map { |word| word.include?("%<") ? format(word, port: @port, dir: @directory) : word }
    start
  end

  def address = "127.0.0.1:#{port}"

  # Starts the process, also again after kill, and waits until it accepts connections.
  def start
    @pid = Process.spawn(*@command, %i[out err] => ["#{directory}/log", "a"], in: File::NULL)
    deadline = Redstalk.now + 30
    begin
      TCPSocket.open("127.0.0.1", port, &:close)
    rescue SystemCallError
      raise File.read("#{directory}/log") if Redstalk.now > deadline || Process.wait(@pid, Process::WNOHANG)

      sleep(0.01)
      retry
    end
  end

  def kill(signal = "KILL")
    return unless @pid

    Process.kill(signal, @pid)
    Process.wait(@pid)
    @pid = nil
  end

  def stop
    kill
    behind&.stop
    FileUtils.rm_rf(directory)
  end
end

# A server that answers each command by a block; nil closes the connection.
class Fake
  attr_reader :lines, :connections

  def initialize(&answer)
    @listener = TCPServer.new("127.0.0.1", 0)
    @answer, @lines, @connections = answer, [], 0
    Thread.new { loop { serve(@listener.accept, @connections += 1) } }.report_on_exception = false
  end

  def address = "127.0.0.1:#{@listener.addr[1]}"

  def close = @listener.close

  private

  def serve(stream, number)
    Thread.new do
      while (line = stream.gets("\r\n", chomp: true))
        stream.gets("\r\n") if line.start_with?("put ", "finish", "checkpoint")
        @lines << line
        reply = @answer.call(number, line) or break
        stream.write("#{reply}\r\n")
      end
    rescue SystemCallError, IOError
      nil
    ensure
      stream.close
    end
  end
end

# A test of one server, which all tests of the class share.
class ServerTest < Minitest::Test
  class << self
    attr_accessor :engine

    def server = @server ||= Server.start(engine).tap { |server| Minitest.after_run { server.stop } }

    # Tests of this class itself do not run, but those of its subclasses do.
    def runnable_methods = engine ? super : []
  end

  def setup
    @tube = "#{name.tr("_", "-")[0, 100]}-#{object_id}"
    @batch = "batch-#{object_id}"
    @closing = []
    @client = client(use: @tube, watch: @tube)
  end

  def teardown = @closing.reverse_each(&:call)

  def client(**settings) = Redstalk::Client.new(self.class.server.address, **settings).tap { |client| @closing << client.method(:close) }

  def until_true(seconds = 20)
    deadline = Redstalk.now + seconds
    until (value = yield)
      flunk("not in time") if Redstalk.now > deadline
      sleep(0.01)
    end
    value
  end
end
