# frozen_string_literal: true

require "timeout"
require_relative "server"
require "active_job"
require "active_job/queue_adapters/redstalk_adapter"

ActiveJob::Base.logger = nil
ActiveJob::Base.queue_adapter = :test

class ActiveJobTest < ServerTest
  self.engine = "memory"

  DONE = Queue.new

  class Base < ActiveJob::Base
    redstalk_options retry: [0.01, 0.01], dead: "morgue"
  end

  class Adds < Base
    queue_as { Adds.tube }
    class << self
      attr_accessor :tube
    end

    def perform(one, two: 1) = DONE << [one + two, provider_job_id, Redstalk::ActiveJob.current.id.to_s, queue_adapter.stopping?]
  end

  class Unique < Adds
    redstalk_options key: ->(job) { "key-#{job.arguments.first}" }, key_ttl: 60, keep: 60, ttr: 7
    retry_on(ArgumentError, wait: 0, attempts: 3, jitter: 0)

    def perform(text)
      DONE << executions
      raise ArgumentError if executions < 3

      text
    end
  end

  class Raises < Adds
    def perform = raise("no")
  end

  class Waits < Adds
    def perform
      DONE << :started
      sleep(0.01) until queue_adapter.stopping?
      DONE << :stopping
    end
  end

  def setup
    super
    DONE.clear
    @adapter = ActiveJob::QueueAdapters::RedstalkAdapter.new(self.class.server.address)
    @closing << @adapter.client.method(:close)
    ActiveJob::Base.queue_adapter = @adapter
    Adds.tube = @tube
  end

  def teardown
    ActiveJob::Base.queue_adapter = :test
    super
  end

  def run_worker(**settings)
    worker = @adapter.worker([@tube], logger: Log.new, **settings)
    thread = Thread.new { worker.run(signals: []) }
    @closing << -> { worker.stop && thread.join(30) }
    worker
  end

  def done = Timeout.timeout(10) { DONE.pop }

  def test_jobs
    run_worker
    job = Adds.perform_later(1, two: 2)
    assert_equal [3, job.provider_job_id, job.provider_job_id, false], done
    Adds.set(wait: 0.05, priority: 7).perform_later(1)
    assert_equal 2, done[0]
    later = Adds.set(wait: 3600, priority: 0).perform_later(1)
    assert_equal ["delayed", 0, "10ms,10ms", "morgue"], @client.stats_job(later.provider_job_id).values_at("state", "pri", "retry", "dead")
    assert_includes 3590..3600, @client.stats_job(later.provider_job_id)["due-ms"] / 1000
    assert_equal 1024, @client.stats_job(Adds.set(wait: 60).perform_later(1).provider_job_id)["pri"]
  end

  # What a job that is put again by retry_on has is not taken for a duplicate of the job that is performed.
  def test_unique_and_retried
    first = Unique.perform_later("ada")
    assert_equal first.provider_job_id, Unique.perform_later("ada").provider_job_id
    assert_equal ["key-ada", 7], [@client.stats_job(first.provider_job_id)["key"], @client.stats_job(first.provider_job_id)["ttr"]]
    run_worker
    assert_equal [1, 2, 3], Array.new(3) { done }
    until_true { @client.stats_tube(@tube)["current-jobs-reserved"].zero? }
    assert_equal %w[done done done], @client.ended(@tube).map(&:how).to_a
    assert_equal '"ada"', @client.ended(@tube).max_by(&:id).result # a job can end before the one that has put it
  end

  def test_failures
    run_worker
    id = Raises.perform_later.provider_job_id.to_i
    dead = client(watch: "morgue").reserve(timeout: 20)
    assert_equal "RuntimeError: no", dead.info["reason"]
    assert_raises(Redstalk::NotFoundError) { @client.stats_job(id) }
  end

  def test_enqueue_all
    jobs = [Adds.new(1), Adds.new(2, two: 2), Unique.new("a" * 70_000)]
    jobs.each { |job| job.singleton_class.class_eval { attr_accessor :successfully_enqueued, :enqueue_error } }
    jobs.each { |job| def job.successfully_enqueued? = successfully_enqueued }
    ActiveJob.const_set(:EnqueueError, Class.new(StandardError)) unless ActiveJob.const_defined?(:EnqueueError)
    assert_equal 2, @adapter.enqueue_all(jobs)
    assert_equal [true, true, false], jobs.map(&:successfully_enqueued)
    assert_match(/JOB_TOO_BIG/, jobs[2].enqueue_error.message)
    run_worker
    assert_equal [2, 4], [done[0], done[0]].sort
  end

  def test_stopping
    worker = run_worker
    id = Waits.perform_later.provider_job_id
    assert_equal :started, done
    refute_predicate @adapter, :stopping?
    worker.stop
    assert_equal :stopping, done
    until_true { @client.stats_job(id) rescue true } # rubocop:disable Style/RescueModifier
  end

  def test_contract
    assert_predicate @adapter, :enqueue_after_transaction_commit?
    assert_nil @adapter.check_adapter
    assert_raises(ArgumentError) { Class.new(Base) { redstalk_options retyr: [1] } }
    assert_raises(ArgumentError) { ActiveJob::QueueAdapters::RedstalkAdapter.new(sceret: "s") }
    assert_equal "ActiveJob::QueueAdapters::RedstalkAdapter", ActiveJob::QueueAdapters.lookup(:redstalk).name
  end

  # The program, with a plain program that requires redstalk after Active Job, as Rails does.
  def test_command
    Dir.mktmpdir do |dir|
      File.write("#{dir}/jobs.rb", <<~RUBY)
        $LOAD_PATH.unshift "#{File.expand_path("../lib", __dir__)}"
        require "active_job"
        require "redstalk"
        ActiveJob::Base.logger = nil
        ActiveJob::Base.queue_adapter = :redstalk
        class Hello < ActiveJob::Base
          def perform(name) = $stdout.write("hello \#{name}\\n")
        end
      RUBY
      @client.put_typed("ActiveJob", { job_class: "Hello", arguments: ["Ada"], executions: 0, locale: "en" }, tube: @tube)
      command = ["ruby", File.expand_path("../exe/redstalk-worker", __dir__), "-r", "#{dir}/jobs.rb", "-c", "2", "other", "#{@tube}=3"]
      IO.popen({ "REDSTALK_SERVER" => self.class.server.address }, command) do |io|
        assert_equal "hello Ada\n", Timeout.timeout(20) { io.gets }
        Process.kill("TERM", io.pid)
      end
      assert_predicate $?, :success?
    end
  end
end
