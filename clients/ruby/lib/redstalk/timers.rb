# frozen_string_literal: true

require_relative "report"

module Redstalk
  # Calls a block with the jobs that are due, in a thread. The block returns a Hash: when some of them are due again. Jobs can be due early by
  # so many seconds, together with others.
  class Timers
    LONGEST_SLEEP = 60.0 # seconds
    private_constant :LONGEST_SLEEP

    def initialize(report, early: 0, &act)
      @report, @early, @act = report, early, act
      @due = {}.compare_by_identity # by Redstalk.now
      @next = 0.0 # when the thread wakes up
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @stopped = false
      @thread = Thread.new { run }
    end

    def add(job, due)
      @lock.synchronize { set(job, due) }
    end

    # Makes a job due earlier, if it is due at all.
    def hasten(job, due)
      @lock.synchronize { set(job, due) if @due.key?(job) && due < @due[job] }
    end

    def remove(job)
      @lock.synchronize { @due.delete(job) }
    end

    def stop
      @lock.synchronize do
        @stopped = true
        @changed.signal
      end
      @thread.join
    end

    private

    def set(job, due)
      @due[job] = due
      @changed.signal if due < @next
    end

    def run
      while (jobs = wait_for_jobs)
        due = call(jobs)
        @lock.synchronize { jobs.each { |job| renew(job, due[job]) } }
      end
    end

    # This thread must go on for the other jobs.
    def call(jobs)
      @act.call(jobs)
    rescue Exception => e # rubocop:disable Lint/RescueException
      jobs.each do |job|
        @report.log(:error, "job #{job.id} is no longer looked after: #{Report.named(e)}", e)
        job.cancel("lost")
      end
      {}
    end

    def renew(job, due)
      if due.nil?
        @due.delete(job)
      elsif @due.key?(job)
        @due[job] = [due, @due[job]].min
      end
    end

    # Waits for the next jobs that are due; nil at the end.
    def wait_for_jobs
      @lock.synchronize do
        until @stopped
          now = Redstalk.now
          @next = @due.each_value.min || (now + LONGEST_SLEEP)
          return take_due(now) if @next <= now

          @changed.wait(@lock, [@next - now, LONGEST_SLEEP].min)
        end
      end
    end

    def take_due(now)
      jobs = @due.filter_map { |job, due| job if due <= now + @early }
      jobs.each { |job| @due[job] = Float::INFINITY } # until the block has returned
    end
  end
  private_constant :Timers
end
