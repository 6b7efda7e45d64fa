# frozen_string_literal: true

require "open3"
require_relative "server"

# A fake server closes the first connection when it gets a command of interest.
class LostTest < Minitest::Test
  PAGE = "---\n- put-tags\n- lease\n- info\n- reason\n"
  CAPABILITIES = "OK #{PAGE.bytesize}\r\n#{PAGE}"

  def fake(lost, reply, capabilities = CAPABILITIES)
    fake_server do |connection, line|
      if line == "capabilities" then capabilities
      elsif line.start_with?("watch ", "ignore ") then "WATCHING 1"
      elsif line.start_with?("use ") then "USING x"
      else line.start_with?(lost) && connection == 1 ? nil : reply
      end
    end
  end

  def fake_server(&answer)
    Fake.new(&answer).tap { |fake| @fakes = [*@fakes, fake] }
  end

  def teardown = @fakes&.each(&:close)

  def client(fake, **settings) = Redstalk::Client.new(fake.address, wait: 5, **settings)

  def leased(id) = Redstalk::Job.new(id: id, lease: "7", info: {})

  def test_put_without_key_has_an_unknown_outcome
    server = fake("put", "INSERTED 1")
    c = client(server)
    assert_raises(Redstalk::UnknownOutcomeError) { c.put("a") }
    assert_raises(Redstalk::UnknownOutcomeError) { client(fake("put", "INSERTED 1")).put("a", key: "k") }
    assert_equal 1, server.lines.grep(/^put/).size
    assert_equal 1, c.put("a").id
  end

  def test_put_with_key_ttl_is_repeated
    server = fake("put", "INSERTED 1")
    assert_equal 1, client(server).put("a", key: "k", key_ttl: 60).id
    assert_equal 2, server.lines.grep(/^put/).size
  end

  def test_put_that_replaces_is_not_repeated
    c = client(fake("put", "INSERTED 1"))
    assert_raises(Redstalk::UnknownOutcomeError) { c.put("a", key: "k", key_ttl: 60, on_duplicate: "replace") }
  end

  def test_put_many
    puts = 0
    server = fake_server do |_, line|
      if line == "capabilities" then CAPABILITIES
      else (puts += 1) == 3 ? nil : "INSERTED #{puts}"
      end
    end
    results = client(server).put_many([*%w[1 2 3], { body: "4", key: "k", key_ttl: 60 }, "5"])
    assert_equal [1, 2, nil, 4, nil], results.map { |one| one.id if one.respond_to?(:id) }
    assert_equal [Redstalk::UnknownOutcomeError], results.values_at(2, 4).map(&:class).uniq
    assert_equal [Redstalk::UnavailableError] * 2, Redstalk::Client.new(refused, wait: 0).put_many(%w[a b]).map(&:class)
  end

  def test_delete_with_a_lease_is_repeated
    client(fake("delete-lease", "DELETED")).delete(leased(7))
    assert_raises(Redstalk::UnknownOutcomeError) { client(fake("delete", "DELETED")).delete(7) }
  end

  def test_burst
    server = fake_server do |connection, line|
      next CAPABILITIES if line == "capabilities"

      verb, id = line.split
      next if connection == 1 && id == "3"

      id.to_i.odd? ? "NOT_FOUND" : { "touch-lease" => "TOUCHED", "finish-lease" => "FINISHED" }[verb]
    end
    c = client(server)
    c.capabilities
    errors = c.ask_all(Array.new(6) { |id| c.touching(leased(id), nil) }).map { |call| call.error.class }
    assert_equal [NilClass, Redstalk::NotFoundError] * 3, errors
    assert_equal [0, 1, 2, 3, 3, 4, 5], server.lines.grep(/lease/).map { |line| line.split[1].to_i }
  end

  def test_threads_share_a_round_trip
    server = fake("never", "DELETED")
    c = client(server)
    c.capabilities
    writes = 0
    io = c.instance_variable_get(:@session).instance_variable_get(:@io)
    io.define_singleton_method(:write) { |*data| writes += 1; super(*data) }
    lock = c.instance_variable_get(:@lock)
    lock.lock
    threads = Array.new(250) { |id| Thread.new { c.delete(leased(id)) } }
    sleep(0.01) until c.instance_variable_get(:@calls).size == 250
    lock.unlock
    threads.each(&:join)
    assert_operator writes, :<, 100
  end

  def test_reserve_is_repeated
    assert_equal 7, client(fake("reserve", "RESERVED 7 1\r\nx", "UNKNOWN_COMMAND")).reserve.id
  end

  def test_lost_again_and_again
    server = fake_server { |_, line| line.start_with?("reserve") ? nil : CAPABILITIES }
    assert_raises(Redstalk::UnavailableError) { Redstalk::Client.new(server.address, wait: 0.5).reserve }
    assert_includes 3..20, server.connections
  end

  def test_job_is_lost_with_its_connection
    server = fake("stats", "RESERVED 7 1\r\nx", "UNKNOWN_COMMAND")
    c = client(server)
    job = c.reserve
    assert_raises(Redstalk::UnknownResponseError) { c.stats } # lost, and repeated
    assert_raises(Redstalk::NotFoundError) { c.delete(job) }
    assert_empty server.lines.grep(/^delete/)
  end

  def test_reply_timeout
    server = fake_server { |_, line| line.start_with?("put") ? sleep(20) : CAPABILITIES }
    assert_raises(Redstalk::UnknownOutcomeError) { client(server, reply_timeout: 0.1).put("a") }
  end

  def test_nonsense
    ["", "WHAT", "INSERTED", "INSERTED x", "RESERVED 1", "RESERVED 1 9999999999999", "OK -1", "RESERVED_BATCH x", "DUPLICATE"].each do |reply|
      assert_raises(Redstalk::Error, reply) { client(fake("never", reply)).put("a") }
    end
  end

  def test_unavailable
    assert_raises(Redstalk::UnavailableError) { Redstalk::Client.new(refused, wait: 0.2).put("a") }
  end

  def test_draining_goes_to_another
    drained = fake_server { |_, line| line == "capabilities" ? CAPABILITIES : "DRAINING" }
    good = fake("never", "INSERTED 1")
    8.times do # the order is random
      assert_equal 1, Redstalk::Client.new([drained.address, good.address]).put("a").id
      assert_equal [1, 1], Redstalk::Client.new("#{drained.address},#{good.address}").put_many(%w[a b]).map(&:id)
    end
    refute_empty drained.lines
    assert_raises(Redstalk::DrainingError) { Redstalk::Client.new(drained.address).put("a") }
  end

  # A put that a server refuses after it has accepted one goes over a new connection, which can lead to another server.
  def test_draining_behind_one_address
    words = ["INSERTED 1", "DRAINING", "INSERTED 2", "DRAINING", "DRAINING"]
    last = 0
    server = fake_server { |number, line| (last = number) && line == "capabilities" ? CAPABILITIES : words.shift }
    client = Redstalk::Client.new(server.address)
    assert_equal [1, 2, 2], [client.put("a").id, client.put("b").id, last]
    assert_raises(Redstalk::DrainingError) { client.put("c") }
    assert_equal 3, last
  end

  def test_addresses
    ["", "a:b", "a:1:2", []].each { |address| assert_raises(ArgumentError, address) { Redstalk::Client.new(address) } }
  end

  private

  def refused = "127.0.0.1:#{Server.free_port}"
end

# A client that is connected before a fork has a connection of its own in the child.
class ForkTest < Minitest::Test
  def in_child
    pid = fork do
      Process.spawn("true").then { |one| Process.wait(one) }
      exit!(yield ? 0 : 1)
    rescue Exception # rubocop:disable Lint/RescueException
      exit!(2)
    end
    -> { assert_equal 0, Process.wait2(pid)[1].exitstatus }
  end

  def test_client
    Server.start do |server|
      c = Redstalk::Client.new(server.address)
      c.put("held")
      held = c.reserve(timeout: 5)
      busy = Thread.new { c.instance_variable_get(:@lock).synchronize { sleep } } # as if another thread were using the client
      sleep(0.01) until c.instance_variable_get(:@lock).locked?
      child = in_child do
        right = Array.new(100) { |i| c.peek(c.put("child #{i}")).body == "child #{i}" }.all?
        c.close # gives back no job of the parent
        right
      end
      busy.kill.join
      assert(Array.new(100) { |i| c.peek(c.put("parent #{i}")).body == "parent #{i}" }.all?)
      child.call
      assert_equal "reserved", c.stats_job(held)["state"]
      assert_equal 1, c.stats["current-connections"]
    end
  end

  def test_job_without_a_lease
    Server.start("beanstalkd") do |server|
      c = Redstalk::Client.new(server.address)
      c.put("a")
      job = c.reserve(timeout: 5)
      in_child do
        c.delete(job)
      rescue Redstalk::NotFoundError
        true
      end.call
      c.delete(job)
    end
  end
end

class RestartTest < Minitest::Test
  def test_restart
    Server.start("embedded") do |server|
      c = Redstalk::Client.new(["127.0.0.1:#{Server.free_port}", server.address], use: "a", watch: %w[a b])
      c.put("x")
      job = c.reserve(timeout: 5)
      server.kill
      server.start
      c.put("y") # the lost connection is noticed before the put is sent
      assert_equal ["a", 1], [c.using, c.stats_tube("a")["current-jobs-ready"]]
      c.delete(job) # its lease has survived
      assert_equal "y", c.reserve(timeout: 5).body
    end
  end

  def test_interrupt
    Server.start do |server|
      c = Redstalk::Client.new(server.address)
      c.tubes
      thread = Thread.new { sleep(0.1) && c.interrupt }
      assert_raises(Redstalk::ClosedError) { c.reserve }
      thread.join
    end
  end

  def test_unix_socket
    path = "#{Dir.mktmpdir}/socket"
    pid = Process.spawn(Server::PROGRAM, "-l", "unix:#{path}", "--store", "memory:", %i[out err] => File::NULL)
    Redstalk::Client.open("unix:#{path}") { |c| assert_equal "a", c.peek(c.put("a")).body }
  ensure
    Process.kill("KILL", pid)
    Process.wait(pid)
  end

  def test_tls_and_user
    dir = Dir.mktmpdir
    system("openssl", *%w[req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1
                          -keyout], "#{dir}/key", "-out", "#{dir}/cert", exception: true, err: File::NULL)
    hashed, = Open3.capture2(Server::PROGRAM, "secret", stdin_data: "open\n")
    File.write("#{dir}/access", <<~ACCESS)
      users:
        - name: app
          secrets: ["#{hashed.strip}"]
          rights:
            - tubes: ["mail*"]
              may: [put, work, read]
    ACCESS
    port = Server.free_port
    Server.start("memory", "--tls", "127.0.0.1:#{port}", "--tls-cert", "#{dir}/cert", "--tls-key", "#{dir}/key", "--access", "#{dir}/access") do
      tls_and_user("127.0.0.1:#{port}", "#{dir}/cert")
    end
  end

  private

  def tls_and_user(address, certificate)
    require "openssl"
    context = OpenSSL::SSL::SSLContext.new
    context.set_params(ca_file: certificate)
    settings = { tls: context, user: "app", name: "mailer", watch: "mails", wait: 5 }
    c = Redstalk::Client.new(address, secret: "open", **settings)
    body = "a" * 60_000
    assert_equal 100, c.put_many(Array.new(100) { { body: body, tube: "mails" } }).map(&:id).size
    jobs = c.reserve_batch(100)
    assert_equal [body], jobs.map(&:body).uniq
    child = fork { exit!(c.stats_job(jobs.first)["state"] == "reserved" ? 0 : 1) }
    assert_equal 0, Process.wait2(child)[1].exitstatus
    jobs.each { |job| c.delete(job) }
    assert_raises(Redstalk::ForbiddenError) { c.put("a", tube: "other") }
    assert_raises(Redstalk::UnauthorizedError) { Redstalk::Client.new(address, secret: "shut", **settings).tubes }
    assert_raises(Redstalk::UnavailableError) { Redstalk::Client.new(address, secret: "open", **settings, tls: true, wait: 0.1).tubes }
    assert_raises(Redstalk::UnavailableError) { Redstalk::Client.new(address.sub("127.0.0.1", "localhost"), secret: "open", **settings, wait: 0.1).tubes }
  end
end
