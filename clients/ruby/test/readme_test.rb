# frozen_string_literal: true

require "timeout"
require_relative "server"

# The programs of the README run as they are, but for the address.
class ReadmeTest < Minitest::Test
  PACKAGE = File.expand_path("..", __dir__)
  PROGRAMS = File.read("#{PACKAGE}/README.md").scan(/```ruby\n(.*?)```/m).flatten.freeze

  def setup
    @server = Server.start
    @client = Redstalk::Client.new(@server.address)
  end

  def teardown = @server.stop

  # Returns the program that has this part.
  def program(part)
    found = PROGRAMS.select { |source| source.include?(part) }
    assert_equal 1, found.size, part
    assert_includes found[0], "127.0.0.1:11300"
    found[0].gsub("127.0.0.1:11300", @server.address)
  end

  # Runs it until it ends, or has printed this line.
  def run_program(source, until_line = nil)
    file = "#{@server.directory}/program.rb"
    File.write(file, "$stdout.sync = true\n#{source}")
    output = +""
    IO.popen(["ruby", "-W", "-I", "#{PACKAGE}/lib", file], err: %i[child out]) do |io|
      Timeout.timeout(30) do
        while (line = io.gets)
          output << line
          Process.kill("TERM", io.pid) if line.chomp == until_line
        end
      end
    end
    assert_predicate $?, :success?, output
    output
  end

  def test_quick_start
    source = program("put_typed(")
    assert_operator source.lines.grep_v(/^\s*$/).size, :<, 12
    run_program(source, "mail to ada@example.com")
    assert_equal 0, @client.stats["current-jobs-ready"]
  end

  def test_putting_and_worker
    assert_equal "1\nnil\n", run_program(program("key_ttl: 86_400"))
    assert_equal ["10s,1m", { "request" => "4711" }], @client.stats_job(1).values_at("retry", "meta")
    run_program(program("Redstalk::Skip, "), "mails ada@example.com")
  end

  def test_batches_and_schedules
    pending, *times = run_program(program("batch.seal")).lines
    assert_equal ["2\n", 3], [pending, times.grep(/ 02:30:00 \+0/).size]
    @client.watch_only(["rows"])
    @client.reserve_batch(2, timeout: 5).each { |job| @client.delete(job) }
    @client.watch_only(["mails"])
    assert_equal "all rows are there", @client.reserve(timeout: 10).body
  end

  def test_results
    @client.watch_only(["mails"])
    worker = Thread.new { 2.times { @client.finish(@client.reserve(timeout: 20), '"sent"') } }
    assert_equal ["1 done sent\n", "2 done sent\n"], run_program(program("wait_all(")).lines.sort
    worker.join
  end

  def test_reserving
    @client.put("x", tube: "mails")
    assert_match(/\A"x"\n{"tube"=>"mails"/, run_program(program("Client.open")))
    assert_raises(Redstalk::NotFoundError) { @client.peek(1) }
  end

  # The defaults of docs/clients.md are tested by client_test.rb; here, that classes and methods which the page names exist.
  def test_names
    page = File.read("#{PACKAGE}/README.md")
    page.scan(/\bRedstalk::([A-Z]\w+)/).flatten.uniq.each { |name| assert(name == "ActiveJob" || Redstalk.const_defined?(name), name) }
    page.scan(/`(\w+Error)`/).flatten.uniq.each { |name| assert(Object.const_defined?(name) || Redstalk.const_defined?(name), name) }
    methods = Redstalk::Client.public_instance_methods(false) + Redstalk::Commands.public_instance_methods
    page[/`set_policy`.*?are the commands/m].scan(/`(\w+)`/).flatten.each { |name| assert_includes methods, name.to_sym }
  end
end
