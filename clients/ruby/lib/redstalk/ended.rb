# frozen_string_literal: true

module Redstalk
  # What became of a job.
  #
  # how: done, deleted, expired, dead (it is a dead letter now), moved (to another tube), or parked: buried, which is no end, but the job does not
  # go on by itself. Of wait_all also not-found or not-kept: it cannot be waited for. result: of a job that is done; empty if it has none.
  # reason: of a parked job, or in a record of the last failure. to_tube, to_id: where a dead or moved job is now. info: the rest of a record: tube,
  # key, group, batch, schedule, meta, put-ms, first-start-ms, ended-ms, until-ms, deliveries, failures and holder; empty after a wait.
  Ended = Struct.new(:id, :how, :result, :reason, :to_tube, :to_id, :info) do
    def initialize(id, how, result: "", reason: "", to_tube: nil, to_id: nil, info: {})
      super(id, how, result, reason, to_tube, to_id, info)
    end

    def self.of_record(page)
      info = page.except("id", "how", "result", "result-bytes", "reason", "to-tube", "to-id")
      result = page.fetch("result", "").to_s.unpack1("m")
      new(page["id"], page["how"], result: result, reason: page.fetch("reason", "").to_s, to_tube: page["to-tube"], to_id: page["to-id"], info: info)
    end

    # Returns what a reply to wait-job says; nil if the job has not ended, or the server does not know now.
    def self.of_reply(id, reply)
      case reply.word
      when "TIMED_OUT", "INTERNAL_ERROR" then nil
      when "NOT_FOUND", "NOT_KEPT" then new(id, reply.word.downcase.tr("_", "-"))
      when "ENDED" then with_body(id, reply.args[1], reply.body)
      else raise reply.error
      end
    end

    def self.with_body(id, how, body)
      case how
      when "done" then new(id, how, result: body)
      when "parked" then new(id, how, reason: Text.utf8(body))
      when "dead", "moved"
        tube, to_id = body.split(" ")
        new(id, how, to_tube: tube, to_id: Integer(to_id, 10))
      else new(id, how)
      end
    end
    private_class_method :with_body

    # Returns the result, which is JSON; nil if there is none. EndedError: the job was not done.
    def value
      raise EndedError.new(id, how, reason) if how != "done"

      JSON.parse(result) unless result.empty?
    end

    # Returns this, or raises NotFoundError or NotKeptError.
    def known
      raise NotFoundError, "NOT_FOUND" if how == "not-found"
      raise NotKeptError, "NOT_KEPT" if how == "not-kept"

      self
    end
  end

  # The wait for some jobs: what to ask, and when again.
  class Waiting
    ASKS = 2000 # jobs a second for which all waits of a client ask
    FIRST_PAUSE = 0.002
    LONGEST_PAUSE = 0.25
    private_constant :ASKS, :FIRST_PAUSE, :LONGEST_PAUSE

    def initialize(ids, timeout)
      @left = ids.to_h { |id| [id, true] }
      @began = Redstalk.now
      @deadline = @began + Text.seconds(timeout) if timeout
    end

    def left = @left.keys

    def questions(ids)
      ids.map do |id|
        Request.new("wait-job #{id} 0", repeat: true, needs: [%w[results results]]) do |reply|
          Ended.of_reply(id, reply).tap { |ended| @left.delete(id) if ended }
        end
      end
    end

    # Returns for how many seconds to wait before the next round, if so many jobs are waited for.
    def pause(jobs)
      return 0 if @left.empty?

      now = Redstalk.now
      raise TimedOutError, "#{@left.size} jobs have not ended in time" if @deadline && now >= @deadline

      pause = [((now - @began) / 8).clamp(FIRST_PAUSE, LONGEST_PAUSE), jobs.fdiv(ASKS)].max
      @deadline ? [pause, @deadline - now].min : pause
    end
  end
  private_constant :Waiting
end
