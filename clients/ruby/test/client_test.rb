# frozen_string_literal: true

require_relative "server"

# What every server has.
class EveryServer < ServerTest
  def test_put_reserve_delete
    id = @client.put("jäb", priority: 3, ttr: 120).id
    job = @client.reserve(timeout: 5)
    assert_equal [id, "jäb"], [job.id, job.body]
    stats = @client.stats_job(job)
    assert_equal [3, 120, "reserved"], stats.values_at("pri", "ttr", "state")
    @client.delete(job)
    %i[delete stats_job touch peek].each { |gone| assert_raises(Redstalk::NotFoundError) { @client.public_send(gone, job) } }
    assert_raises(Redstalk::TimedOutError) { @client.reserve(timeout: 0) }
  end

  def test_ids_of_held_jobs
    id = @client.put("a").id
    @client.reserve(timeout: 0)
    @client.touch(id)
    @client.release(id, delay: 0)
    @client.reserve(timeout: 5)
    @client.bury(id)
    assert_equal id, @client.peek_buried.id
    assert_equal 1, @client.kick(10)
    @client.reserve(timeout: 5)
    @client.delete(id)
  end

  def test_release_bury_kick_peek
    id = @client.put("\xff\r\n\0").id
    assert_equal "\xff\r\n\0".b, @client.peek_ready.body
    @client.release(@client.reserve(timeout: 0), priority: 7, delay: 100)
    assert_equal id, @client.peek_delayed.id
    assert_equal 7, @client.stats_job(id)["pri"]
    @client.kick_job(id)
    @client.bury(@client.reserve(timeout: 5), priority: 9)
    assert_equal [id, 9], [@client.peek_buried.id, @client.stats_job(id)["pri"]]
    @client.kick_job(id)
    job = @client.reserve_job(id)
    @client.touch(job)
    @client.delete(job)
    %i[peek_ready peek_delayed peek_buried].each { |peek| assert_raises(Redstalk::NotFoundError) { @client.public_send(peek) } }
  end

  def test_bodies
    @client.put("ä".b)
    @client.put("ä".encode("UTF-16LE"))
    assert_equal ["ä", "ä".encode("UTF-16LE").b], [@client.reserve(timeout: 5).body, @client.reserve(timeout: 5).body.b]
    [nil, 7, :a].each { |body| assert_raises(TypeError) { @client.put(body) } }
  end

  def test_tubes
    c = client
    assert_equal ["default", ["default"]], [c.using, c.watching]
    c.use("one")
    assert_includes c.tubes, "one"
    assert_equal 2, c.watch("two")
    assert_equal 1, c.ignore("default")
    assert_raises(Redstalk::NotIgnoredError) { c.ignore("two") }
    assert_equal ["one", ["two"]], [c.using, c.watching]
    c.put("a", tube: "two")
    assert_equal 1, c.stats_tube("two")["current-jobs-ready"]
    c.pause_tube("two", 60)
    assert_raises(Redstalk::TimedOutError) { c.reserve(timeout: 0) }
    c.pause_tube("two", 0)
    c.delete(c.reserve(timeout: 5))
    assert_operator c.stats["total-jobs"], :>, 0
  end

  def test_refusals
    assert_raises(Redstalk::JobTooBigError) { @client.put("x" * 70_000) }
    [-> { @client.use("a b") }, -> { @client.put("a", tube: "a\r\nb") }, -> { @client.put("a", priority: -1) },
     -> { @client.put("a", ttr: Float::NAN) }, -> { @client.put("a", delay: "soon") }].each { |call| assert_raises(ArgumentError, &call) }
    assert_raises(Redstalk::NotFoundError) { @client.stats_tube("no-such-tube") }
    assert_empty @client.reserve_batch(3)
    assert_nil @client.put("x", delay: 3600r, ttr: 0).state
  end

  def test_put_many
    results = @client.put_many([*("1".."600"), "x" * 70_000, { body: "other", tube: "#{@tube}-2", priority: 1 }, { type: "t", data: [1] }])
    assert_equal [Redstalk::Inserted, Redstalk::JobTooBigError], results.map(&:class).uniq
    assert_equal [600], results.each_index.reject { |at| results[at].respond_to?(:id) }
    assert_equal "other", @client.peek(results[601].id).body
    assert_equal '{"type":"t","data":[1]}', @client.peek(results[602].id).body
    assert_equal 601, @client.stats_tube(@tube)["current-jobs-ready"]
    assert_empty @client.put_many([])
    assert_raises(ArgumentError) { @client.put_many([{ body: "a", retyr: [1] }]) }
  end

  def test_held_jobs_go_back_with_close
    other = client(watch: @tube)
    id = @client.put("x").id
    other.reserve(timeout: 5)
    other.close
    job = @client.reserve(timeout: 5)
    assert_equal [id, 0], [job.id, job.info.fetch("failures", 0)]
    assert_raises(Redstalk::ClosedError) { other.reserve }
  end

  def test_threads_share_a_client
    8.times.map { Thread.new { 100.times { @client.put("x") } } }.each(&:join)
    ids = Array.new(800) { @client.reserve(timeout: 5).id }
    assert_equal 800, ids.uniq.size
    ids.each_slice(100).map { |some| Thread.new { some.each { |id| @client.delete(id) } } }.each(&:join)
    assert_raises(Redstalk::TimedOutError) { @client.reserve(timeout: 0) }
  end

  # What interrupts a thread in the middle of a command leaves no reply behind for the next one.
  def test_interrupted_command
    [->(thread) { thread.raise("stop") }, :kill.to_proc].each do |interrupt|
      thread = Thread.new { @client.reserve }
      thread.report_on_exception = false
      sleep(0.1)
      interrupt.call(thread)
      thread.join rescue nil # rubocop:disable Style/RescueModifier
      id = @client.put("a").id
      job = @client.reserve(timeout: 5)
      assert_equal id, job.id
      @client.delete(job)
    end
    assert_equal :out, catch(:out) { @client.put_many(Enumerator.new { throw :out, :out }) }
  end
end

# What only redstalk has.
class Extensions < EveryServer
  TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

  def test_keys
    id = @client.put("a", key: "k", key_ttl: 60).id
    again = @client.put("b", key: "k", key_ttl: 60)
    assert_equal [id, "READY"], again.to_a
    assert_equal "a", @client.find(@tube, "k").body
    assert_equal id, assert_raises(Redstalk::DuplicateError) { @client.put("b", key: "k", on_duplicate: "fail") }.id
    @client.delete_key(@tube, "k")
    assert_equal "GONE", @client.put("b", key: "k", key_ttl: 60).state
  end

  def test_tags_and_info
    @client.put(
      "a", delay: 0.02, ttr: 90, key: "k", retry: [0.5, 60], jitter: 0, max_deliveries: 9, dead: "morgue", expire: 3600, on_expire: :park,
      meta: { request: %(a "b"\n\\) }, trace: TRACE, group: "Ann & Co"
    )
    job = @client.reserve(timeout: 5)
    expected = {
      "tube" => @tube, "pri" => 1024, "ttr" => 90, "key" => "k", "retry" => "500ms,1m", "meta" => { "request" => %(a "b"\n\\) },
      "trace" => TRACE, "failures" => 0
    }
    assert_equal expected, job.info.slice(*expected.keys)
    assert_equal [9, "morgue", "Ann & Co"], @client.stats_job(job).values_at("max", "dead", "group")
    @client.release(job, reason: 'bröken: "x"')
    assert_equal([[job.id, 'bröken: "x"']], @client.list_jobs(@tube, "delayed").map { |one| one.values_at("id", "reason") })
    job = @client.reserve(timeout: 5)
    assert_equal 1, job.info["failures"]
    @client.release(job, failure: false)
    assert_equal 1, @client.reserve(timeout: 5).info["failures"]
    @client.put("later", at: Time.now + 3600)
    assert_equal "later", @client.peek_delayed.body
    @client.put("exp", retry: "exp(1s,10s,3)")
  end

  def test_leases
    %w[a b c].each { |body| @client.put(body) }
    jobs = @client.reserve_batch(10, timeout: 5)
    assert_equal %w[a b c], jobs.map(&:body)
    other = client
    other.touch(jobs[0])
    other.delete(jobs[0])
    other.bury(jobs[1], reason: "why")
    other.release(jobs[2])
    again = @client.reserve(timeout: 5)
    assert_operator again.lease, :>, jobs[2].lease
    assert_raises(Redstalk::NotFoundError) { other.delete(jobs[2]) }
    @client.delete(again)
  end

  def test_policies_and_groups
    @client.set_policy(@tube, retry: [10, 60], dead: "morgue", group_concurrency: 1)
    assert_equal({ "retry" => "10s,1m", "dead" => "morgue", "group-concurrency" => 1 }, @client.get_policy(@tube))
    assert_includes @client.policies, @tube
    %w[a b].each { |body| @client.put(body, group: "Ann & Co") }
    @client.reserve(timeout: 5)
    assert_empty @client.reserve_batch(1)
    assert_equal "concurrency", @client.stats_group(@tube, "Ann & Co")["held"]
    @client.set_group(@tube, "Ann & Co", concurrency: 2, weight: 3)
    assert_equal 3, @client.get_group(@tube, "Ann & Co")["weight"]
    assert_equal ["Ann & Co"], @client.list_groups(@tube).map { |group| group["name"] }
    @client.pause_group(@tube, "Ann & Co", 60)
    assert_empty @client.reserve_batch(1)
    assert_equal 1, @client.flush_group(@tube, "Ann & Co")
    @client.set_policy(@tube)
    assert_raises(Redstalk::NotFoundError) { @client.get_policy(@tube) }
  end

  def test_results
    kept = @client.put("x", keep: 3600, key: "k", meta: { a: "b, }" })
    assert_raises(Redstalk::TimedOutError) { @client.wait(kept, timeout: 0.05) }
    job = @client.reserve(timeout: 0)
    assert_raises(Redstalk::JobTooBigError) { @client.finish(job, "x" * 65_537) }
    @client.finish(job, "\0\r\nENDED\xff".b)
    ended = @client.wait(kept, timeout: 5)
    assert_equal [kept.id, "done", "\0\r\nENDED\xff".b], [ended.id, ended.how, ended.result]
    listed = @client.ended(@tube).to_a
    assert_equal [@client.stats_ended(kept)], listed
    assert_equal [ended.result, { "a" => "b, }" }, "k"], [listed[0].result, listed[0].info["meta"], listed[0].info["key"]]
  end

  def test_waiting_for_many
    parked, dying, gone = @client.put("1", keep: 60), @client.put("2", keep: 60, max_deliveries: 1, dead: "morgue"), @client.put("3", keep: 60)
    forgotten = @client.put("4")
    @client.bury(@client.reserve(timeout: 0), reason: "bad")
    @client.release(@client.reserve(timeout: 0))
    @client.delete(gone)
    assert_raises(Redstalk::NotKeptError) { @client.finish(@client.reserve(timeout: 0), "") }
    assert_raises(Redstalk::NotKeptError) { @client.wait(forgotten) }
    assert_raises(Redstalk::NotFoundError) { @client.wait(1 << 40) }
    many = @client.wait_all([parked, dying, gone, forgotten, 1 << 40], timeout: 5).to_h { |one| [one.id, one] }
    assert_equal %w[parked bad], [many[parked.id].how, many[parked.id].reason]
    assert_equal %w[dead morgue], [many[dying.id].how, many[dying.id].to_tube]
    assert_equal %w[deleted not-kept not-found], [gone.id, forgotten.id, 1 << 40].map { |id| many[id].how }
    assert_raises(Redstalk::EndedError) { many[gone.id].value }
  end

  def test_pages_of_records
    ids = @client.put_many(Array.new(1100) { { body: "", keep: 60, batch: @batch } }).map(&:id)
    @client.flush_tube(@tube)
    [@client.ended(@tube), @client.ended(batch: @batch)].each { |ended| assert_equal ids, ended.map(&:id).to_a.sort }
  end

  def test_checkpoints
    @client.put("a")
    job = @client.reserve(timeout: 5)
    assert_raises(Redstalk::NotFoundError) { @client.get_checkpoint(job) }
    @client.touch(job, progress: 'half "way"')
    @client.checkpoint(job, "\0\xff".b)
    assert_equal 'half "way"', @client.stats_job(job)["progress"]
    assert_equal "\0\xff".b, @client.get_checkpoint(job)
    @client.bury(job)
    @client.kick(1, keep_checkpoint: true)
    assert_equal "\0\xff".b, @client.reserve(timeout: 5).info["checkpoint"].unpack1("m")
  end

  def test_moves
    id = @client.put("a", delay: 60)
    @client.reschedule(id, 0)
    @client.set_priority(id, 4)
    assert_equal 4, @client.stats_job(id)["pri"]
    assert_equal 1, @client.move_jobs(@tube, "ready", "#{@tube}-2", 10)
    @client.put_many(Array.new(150) { { body: "x", tube: "#{@tube}-2" } })
    assert_equal 151, @client.list_jobs("#{@tube}-2", "ready").count
    assert_equal 151, @client.flush_tube("#{@tube}-2")
    id = @client.put("a")
    @client.bury(@client.reserve(timeout: 5))
    @client.replay_job(id)
    assert_equal "ready", @client.stats_job(id)["state"]
    assert_includes @client.capabilities, "lease"
  end

  def test_batches
    name = @batch
    batch = @client.batch(name)
    assert_raises(Redstalk::NotFoundError) { batch.stats }
    members = [batch.add("1", batch_ttl: 3600), batch.add("2", priority: 1)]
    last = batch.then("done", tube: "#{@tube}-mails", batch: "#{name}-next")
    assert_equal ["delayed", "batch", name, "#{name}-next"], @client.stats_job(last).values_at("state", "held", "after", "batch")
    batch.seal
    assert_raises(Redstalk::BatchSealedError) { batch.add("3") }
    assert_equal [name, "sealed", true, 2, 2, 3_600_000], batch.stats.values_at("name", "state", "sealed", "total", "pending", "ttl-ms")
    assert_equal [{ "id" => last.id, "tube" => "#{@tube}-mails", "state" => "delayed", "all" => false, "batch" => "#{name}-next" }], batch.stats["after"]
    @client.watch("#{@tube}-mails")
    members.each { |member| @client.delete(member) }
    assert_equal ["done", "done"], [@client.reserve(timeout: 10).body, batch.stats["state"]]
  end

  def test_cancelled_batch
    batch = @client.batch(@batch)
    3.times { batch.add("x", tube: "#{@tube}-rows") }
    @client.put("done", after: batch.name)
    batch.then_all("ended")
    assert_equal 3, batch.cancel
    assert_equal "ended", @client.reserve(timeout: 10).body
    assert_equal ["failed", 3, 1], batch.stats.values_at("state", "gone", "after-failed")
    ["a b", "", "x" * 101].each do |bad|
      assert_raises(ArgumentError) { @client.put("a", batch: bad) }
      assert_raises(ArgumentError) { @client.batch(bad).seal }
    end
  end

  def test_schedules
    start = Time.at(Time.now.to_i + 86_400)
    name = "00#{object_id}"
    @client.set_schedule(
      name, @tube, "ä", priority: 3, ttr: 90, every: 3600, start: start, until: start + 86_400, spread: 0.5, overlap: "skip",
      catch_up: 60, catch_up_all: 2, retry: [1, 60], meta: { a: "b c" }
    )
    assert_equal [name, @tube, 3, 90, "1h", false, 0], @client.get_schedule(name).values_at("name", "tube", "pri", "ttr", "every", "paused", "put")
    assert_equal [start, start + 3600], @client.preview_schedule(name, 2)
    @client.pause_schedule(name)
    assert_equal([true], @client.list_schedules.filter_map { |one| one["paused"] if one["name"] == name })
    @client.resume_schedule(name)
    id = @client.run_schedule(name)
    assert_equal [nil, [id.id, "READY"]], [id.state, @client.run_schedule(name).to_a]
    job = @client.reserve(timeout: 5)
    assert_equal ["ä", { "a" => "b c" }, "1s,1m"], [job.body, *job.info.values_at("meta", "retry")]
    @client.delete_schedule(name)
    assert_raises(Redstalk::NotFoundError) { @client.get_schedule(name) }
    @client.set_schedule(name, @tube, "a", delay: 1.5, cron: "30 2 * * 1-5", tz: "Europe/Berlin")
    assert_equal @client.preview_schedule(name, 3), @client.preview_cron("30 2 * * 1-5", 3, tz: "Europe/Berlin")
    assert_equal "BAD_FORMAT (preview-schedule)", assert_raises(Redstalk::BadFormatError) { @client.preview_cron("* *") }.message
    assert_includes assert_raises(ArgumentError) { @client.use("a b") }.message, "\"a b\": it must be "
  end

  # They are those of all clients: docs/clients.md#defaults.
  def test_defaults
    @client.set_schedule("defaults-#{object_id}", @tube, "a", every: 3600)
    ids = [@client.put("a"), @client.put_typed("a"), @client.batch("defaults").add("a"), @client.put_many(["a"]).first, @client.run_schedule("defaults-#{object_id}")]
    ids.map { |id| @client.stats_job(id) }.each do |stats|
      assert_equal [1024, 60, 0, "", 0], [*stats.values_at("pri", "ttr", "delay"), stats["retry"].to_s, stats["max"].to_i]
    end
    (1..99).each { |n| assert_in_delta 1, Redstalk::Backoff.exponential.call(n) / [2**(n - 1), 3600].min, 0.1 }
    worker = Redstalk::Worker.new
    assert_equal [1800, 10, 25, 10.0], [worker.timeout, worker.concurrency, worker.shutdown_timeout, worker.grace]
  end

  # An option with another name is an error at the call.
  def test_misspelled
    worker = Redstalk::Worker.new
    [
      -> { @client.put("a", priorty: 1) }, -> { @client.put("a", retyr: [1]) }, -> { @client.put_typed("a", 1, retyr: [1]) },
      -> { @client.batch("b").add("a", retyr: [1]) }, -> { @client.set_schedule("s", "a", "a", evry: 1) }, -> { @client.set_policy("a", retyr: [1]) },
      -> { @client.set_group("a", "g", wieght: 1) }, -> { @client.release(1, raeson: "a") }, -> { @client.touch(1, progres: "a") },
      -> { @client.kick(1, keep: true) }, -> { Redstalk::Client.new(sceret: "s") }, -> { Redstalk::Worker.new(concurency: 1) },
      -> { Redstalk::Worker.new(sceret: "s") }, -> { worker.handle("a", typ: "b") { nil } }, -> { worker.run(signal: []) }
    ].each { |call| assert_raises(ArgumentError, &call) }
  end
end

Server::ENGINES.each { |engine| Class.new(Extensions) { self.engine = engine }.then { |test| Object.const_set("Client#{engine.capitalize}Test", test) } }

class ClientBeanstalkdTest < EveryServer
  self.engine = "beanstalkd"

  def test_missing_features_are_named
    {
      "put with key" => -> { @client.put("a", key: "k") }, "put with meta" => -> { @client.put("a", meta: { a: "b" }) },
      "set-policy" => -> { @client.set_policy("a", retry: [1]) }, "list-jobs" => -> { @client.list_jobs("a", "ready").to_a },
      "find" => -> { @client.find("a", "k") }, "put with after" => -> { @client.batch("b").then("a") }, "seal-batch" => -> { @client.batch("b").seal },
      "set-schedule" => -> { @client.set_schedule("s", "a", "a", every: 1) }, "pause-group" => -> { @client.pause_group("a", "g", 1) },
      "results" => -> { @client.wait(1) }, "checkpoint" => -> { @client.kick(1, keep_checkpoint: true) }
    }.each { |feature, call| assert_equal feature, assert_raises(Redstalk::UnsupportedError, feature, &call).feature }
    assert_raises(Redstalk::UnsupportedError) { client(user: "a", secret: "b").put("x") }
    assert_empty @client.capabilities
  end

  def test_times_are_rounded_up
    assert_equal 2, @client.stats_job(@client.put("a", delay: 1.5))["delay"]
    assert_includes 99..101, @client.stats_job(@client.put("a", at: Time.now + 100))["delay"]
  end

  def test_what_is_left_out
    @client.put_typed("a", [1])
    @client.release(@client.reserve(timeout: 5), reason: "because")
    @client.release(@client.reserve(timeout: 5), failure: false)
    job = @client.reserve(timeout: 5)
    @client.touch(job, progress: "half")
    @client.bury(job, reason: "because")
    assert_equal '{"type":"a","data":[1]}', job.body
  end

  def test_deadline_soon
    @client.put("a", ttr: 1)
    @client.reserve(timeout: 5)
    assert_raises(Redstalk::DeadlineSoonError) { @client.reserve(timeout: 5) }
  end
end
