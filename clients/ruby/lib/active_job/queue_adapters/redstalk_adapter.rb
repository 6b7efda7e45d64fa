# frozen_string_literal: true

require "active_job"
require "redstalk"
require "redstalk/active_job"

module ActiveJob
  module QueueAdapters
    # Active Job on redstalk, for Rails 6.1 and later:
    #
    #     config.active_job.queue_adapter = :redstalk
    #
    # The server is REDSTALK_SERVER of the environment, or 127.0.0.1:11300; the user REDSTALK_AUTH_USER with REDSTALK_SECRET. For other settings
    # set RedstalkAdapter.new(address, tls: true).
    class RedstalkAdapter < (const_defined?(:AbstractAdapter) ? const_get(:AbstractAdapter) : Object)
      attr_reader :client

      # The settings are those of Redstalk::Client.
      def initialize(address = ENV.fetch("REDSTALK_SERVER", "127.0.0.1:11300"), user: ENV["REDSTALK_AUTH_USER"], secret: ENV["REDSTALK_SECRET"], **settings)
        super()
        @address, @settings = address, { user: user, secret: secret, **settings }
        @client = Redstalk::Client.new(address, **@settings)
      end

      def enqueue(job)
        put(job, nil)
      end

      def enqueue_at(job, timestamp)
        put(job, timestamp)
      end

      # Enqueues many jobs in few round trips, and returns how many were enqueued. perform_all_later of Rails 7.1 calls it.
      def enqueue_all(jobs)
        results = @client.put_many(jobs.map { |job| Redstalk::ActiveJob.message(job, job.scheduled_at) })
        jobs.zip(results).count do |job, result|
          job.successfully_enqueued = result.is_a?(Redstalk::Inserted)
          next job.provider_job_id = result.to_s if job.successfully_enqueued?

          job.enqueue_error = EnqueueError.new(result.message)
          false
        end
      end

      # Jobs are enqueued when the transaction is committed: a worker can be faster than a commit.
      def enqueue_after_transaction_commit? = true

      # Rails calls it when the adapter is set: there is nothing to warn of.
      def check_adapter = nil

      # Reports whether the worker that performs a job in this thread is told to stop. Continuations of Rails 8.1 ask at each checkpoint.
      def stopping?(_job = nil) = Redstalk::ActiveJob.current&.stopping? || false

      # Returns a worker for the jobs of queues: names, or a Hash of names with weights. The settings are those of Redstalk::Worker.
      def worker(queues, **settings)
        worker = Redstalk::Worker.new(@address, **@settings, **settings)
        queues.each { |queue, weight| worker.handle(queue, Redstalk::ActiveJob, type: Redstalk::ActiveJob::TYPE, weight: weight) }
        worker
      end

      private

      def put(job, timestamp)
        message = Redstalk::ActiveJob.message(job, timestamp)
        job.provider_job_id = @client.put_typed(message.delete(:type), message.delete(:data), **message).to_s
      end
    end
  end
end
