# frozen_string_literal: true

require_relative "../redstalk"

module Redstalk
  # Jobs of Active Job as jobs with a type.
  module ActiveJob
    TYPE = "ActiveJob"
    CURRENT = :redstalk_current_job
    private_constant :CURRENT

    # Class methods of jobs.
    module ClassMethods
      # Sets options of the puts of this class and its subclasses, such as retry, dead, key or group. A value can be something with call,
      # which gets the job.
      def redstalk_options(**options)
        @redstalk_options ||= {}
        return superclass.respond_to?(:redstalk_options) ? superclass.redstalk_options.merge(@redstalk_options) : @redstalk_options if options.empty?

        unknown = options.keys - ActiveJob.options
        raise ArgumentError, "unknown keyword: #{unknown.map(&:inspect).join(", ")}" unless unknown.empty?

        @redstalk_options.update(options)
      end
    end

    module_function

    # Returns the options that a class can set.
    def options = [:ttr, *(Options::PUT - %i[at])]

    # Returns a job as put_many takes it. One that retry_on puts again has no key, which the job that is performed still has.
    def message(job, timestamp)
      chosen = job.class.redstalk_options.transform_values { |value| value.respond_to?(:call) ? value.call(job) : value }
      chosen = chosen.except(:key, :key_ttl, :on_duplicate) if job.executions.to_i.positive?
      chosen[:at] = Time.at(timestamp.to_f) if timestamp
      chosen[:priority] = job.priority if job.priority
      { type: TYPE, data: job.serialize, tube: job.queue_name, **chosen }
    end

    # Performs a job: the handler of a worker.
    def call(job)
      Thread.current.thread_variable_set(CURRENT, job)
      ::ActiveJob::Base.execute(job.data.merge("provider_job_id" => job.id.to_s))
    ensure
      Thread.current.thread_variable_set(CURRENT, nil)
    end

    # Returns the Redstalk::WorkerJob whose Active Job is performed in this thread: for its progress, checkpoint, lease and so on.
    def current = Thread.current.thread_variable_get(CURRENT)
  end
end

ActiveSupport.on_load(:active_job) { extend Redstalk::ActiveJob::ClassMethods }
