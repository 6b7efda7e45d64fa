# frozen_string_literal: true

# Client and workers for redstalk, and for beanstalkd.
module Redstalk
  DEFAULT_TUBE = "default"
  DEFAULT_PRIORITY = 1024
  DEFAULT_TTR = 60

  # Returns the seconds of a clock that nobody sets.
  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

require_relative "redstalk/version"
require_relative "redstalk/errors"
require_relative "redstalk/client"
require_relative "redstalk/worker"

# For config.active_job.queue_adapter = :redstalk.
ActiveSupport.on_load(:active_job) { require "active_job/queue_adapters/redstalk_adapter" } if defined?(ActiveSupport)
