# frozen_string_literal: true

require_relative "server"

# 10,000 jobs while the server, or the worker, is killed.
class ChaosTest < Minitest::Test
  JOBS = 10_000

  def test_server_is_killed
    handled = Queue.new
    Server.start("embedded") do |server|
      worker = Redstalk::Worker.new(server.address, concurrency: 20, wait: 30, logger: Log.new)
      worker.handle("chaos") { |job| handled << job.body }
      serving = Thread.new { worker.run(signals: []) }
      producers = Array.new(4) { |part| Thread.new { produce(server, part) } }
      [JOBS / 4, JOBS / 2].each do |count|
        until_true { handled.size >= count }
        assert_operator handled.size, :<, JOBS
        server.kill
        server.start
      end
      producers.each(&:join)
      until_true { all_done?(server) }
      worker.stop
      assert serving.join(40)
    end
    assert_all(Array.new(handled.size) { handled.pop })
  end

  WORKER = <<~RUBY
    require "redstalk"
    worker = Redstalk::Worker.new(ARGV[0], wait: 30)
    out = File.open(ARGV[1], "a").tap { |file| file.sync = true }
    worker.handle("chaos") { |job| sleep(0.002) && out.write(job.body + "\\n") }
    worker.run
  RUBY

  # Three processes, of which one is killed again and again. Its jobs come again after their TTR.
  def test_workers_are_killed
    Server.start("embedded") do |server|
      file = "#{server.directory}/handled"
      produce(server, 0, 1, 2)
      workers = Array.new(3) { start(server, file) }
      5.times do
        sleep(0.4)
        stop(workers.shift, "KILL")
        workers << start(server, file)
      end
      until_true(90) { all_done?(server) }
      workers.each { |pid| assert_equal 0, stop(pid, "TERM").exitstatus }
      lines = File.readlines(file, chomp: true)
      assert_all(lines)
      assert_operator lines.size - JOBS, :<=, 5 * 10 # the handlers of five processes
    end
  end

  private

  def produce(server, part, of = 4, ttr = 10)
    Redstalk::Client.open(server.address, use: "chaos", wait: 30) do |c|
      (part...JOBS).step(of).each_slice(100) do |some|
        left = some.map { |n| { body: n.to_s, ttr: ttr, key: n.to_s, key_ttl: 3600 } }
        results = c.put_many(left)
        assert_empty results.grep(Redstalk::Error)
      end
    end
  end

  def start(server, file)
    Process.spawn("ruby", "-I", "#{__dir__}/../lib", "-e", WORKER, server.address, file)
  end

  def stop(pid, signal)
    Process.kill(signal, pid)
    Process.wait2(pid)[1]
  end

  def all_done?(server)
    Redstalk::Client.open(server.address) do |c|
      c.stats_tube("chaos").values_at("current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed").sum.zero?
    end
  rescue Redstalk::NotFoundError
    true
  end

  def assert_all(bodies)
    assert_equal (0...JOBS).map(&:to_s).sort, bodies.uniq.sort
    puts "#{bodies.size - JOBS} of #{JOBS} jobs were delivered more than once"
  end

  def until_true(seconds = 60)
    deadline = Redstalk.now + seconds
    until yield
      flunk("not in time") if Redstalk.now > deadline
      sleep(0.05)
    end
  end
end
