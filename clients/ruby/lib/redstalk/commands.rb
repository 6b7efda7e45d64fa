# frozen_string_literal: true

require "time"
require_relative "options"
require_relative "batch"
require_relative "ended"

module Redstalk
  # The commands of a client. Where a job is expected, its id will do. They raise the exceptions of errors.rb.
  module Commands
    LONGEST_WAIT = 30 # seconds that one reserve waits at the server; a longer one is several
    MAX_RESERVED = 100
    MAX_DATA = 64 << 10 # bytes of a result or a checkpoint
    MANY_JOBS = 256 # that put_many sends at a time
    MANY_BYTES = 1 << 20
    private_constant :LONGEST_WAIT, :MAX_RESERVED, :MAX_DATA, :MANY_JOBS, :MANY_BYTES

    # Puts a job into a tube, by default the used one, and returns its id and state. docs/extensions.md says what each option does.
    #
    # If the connection is lost after the put was sent, it is repeated if it has a key and a key_ttl. Otherwise
    # UnknownOutcomeError is raised: the job may be there.
    def put(body, **options)
      request = putting(body, **options)
      call = Pending.new(request)
      with_session { |session| session.carry_out([call]) }
      call.value
    end

    # Puts a job with a type and data that JSON can have: docs/clients.md#jobs-with-a-type.
    def put_typed(type, data = nil, meta: {}, **options)
      body, headers = typed(type, data, meta)
      put(body, **headers, **options)
    end

    # Puts any number of jobs without waiting for each reply. A job is a body, or a Hash of the options of a put with the body, or with type and
    # data. Returns, for each job, its id and state, or the exception of the one that was not put.
    def put_many(jobs)
      calls = jobs.map { |job| Pending.new(putting_one(job)) }
      bytes = 0
      slices = calls.slice_when do |one, other|
        bytes += one.request.size
        full = one.request.tube != other.request.tube || bytes > MANY_BYTES
        bytes = 0 if full
        full
      end
      slices.each { |slice| slice.each_slice(MANY_JOBS) { |some| synchronize { together(some) } } }
      calls.map { |call| call.error || call.value }
    end

    # Puts later jobs into a tube.
    def use(tube) = with_session { |session| session.use(tube) }

    # Reserves from a tube too, and returns the number of watched tubes. Weights need redstalk.
    def watch(tube, weight = 0) = watch_only(@session.watched.merge(tube => weight))

    # Stops watching a tube, and returns the number of watched tubes.
    def ignore(tube)
      raise NotIgnoredError, "NOT_IGNORED" if @session.watched.keys == [tube]

      watch_only(@session.watched.except(tube))
    end

    # Watches these tubes and no others: an Array, or a Hash with weights.
    def watch_only(tubes)
      weights = tubes.is_a?(Hash) ? tubes : Array(tubes).to_h { |tube| [tube, 0] }
      with_session do |session|
        session.watch_only(weights)
        session.watched.size
      end
    end

    # Reserves a job. TimedOutError: there was none for that time; nil waits for ever.
    def reserve(timeout: nil)
      reserve_batch(1, timeout: timeout).first or raise TimedOutError, "TIMED_OUT"
    end

    # Reserves up to count jobs, at most 100, that are ready; waits for the first one. With beanstalkd at most one.
    def reserve_batch(count, timeout: 0)
      raise ArgumentError, "a batch of #{count}" unless count.positive?

      deadline = Redstalk.now + Text.seconds(timeout) if timeout
      loop do
        left = deadline ? [(deadline - Redstalk.now).ceil, 0].max : LONGEST_WAIT
        jobs = ask(reserving([count, MAX_RESERVED].min, [left, LONGEST_WAIT].min))
        return jobs if jobs.any? || (deadline && Redstalk.now >= deadline)
      end
    end

    # Reserves a job by its id. It has no lease, so it belongs to the connection.
    def reserve_job(id)
      sent = Redstalk.now
      ask(Request.new("reserve-job #{id_of(id)}", &expect("RESERVED") { |reply| held(*reply.jobs.first, sent) }))
    end

    # Deletes a job: it is done.
    def delete(job) = ask(settling("delete", job, "", "DELETED"))

    # Deletes a reserved job with a result, up to 64 KiB, for those who wait for its end. NotKeptError: nothing is kept of it, and nothing has happened.
    def finish(job, result) = ask(with_data("finish", job, result, "FINISHED", "results"))

    # Waits until a job that was put with keep has ended, and returns what became of it. A buried job is "parked".
    #
    # TimedOutError: it has not in that time. NotFoundError: there is neither the job nor its record. NotKeptError: it has no keep.
    def wait(job, timeout: nil)
      wait_all([job], timeout: timeout).first.known
    end

    # Yields what became of each job as soon as it has ended; without a block returns an Enumerator.
    #
    # TimedOutError: not all have in that time. Jobs that cannot be waited for are "not-found" or "not-kept". Others can use the client meanwhile.
    def wait_all(jobs, timeout: nil, &block)
      return enum_for(:wait_all, jobs, timeout: timeout) unless block

      waiting = Waiting.new(jobs.map { |job| id_of(job) }, timeout)
      count = waiting.left.size
      @awaited += count
      until waiting.left.empty?
        waiting.left.each_slice(500) { |ids| ask_all(waiting.questions(ids)).filter_map(&:value).each(&block) }
        sleep(waiting.pause(@awaited))
      end
    ensure
      @awaited -= count if count
    end

    # Returns the record of a job that has ended.
    def stats_ended(job)
      ask(extension("stats-ended #{id_of(job)}", "OK", "results", repeat: true) { |reply| Ended.of_record(typed_page(reply)) })
    end

    # Yields the records of the ended jobs of a tube or a batch, the newest first.
    def ended(tube = nil, batch: nil)
      of = batch ? "batch:#{Text.batch(batch)}" : Text.tube(tube)
      pages("list-ended #{of} 1000", "ended", "results").lazy.map { |one| Ended.of_record(one) }
    end

    # Starts the TTR of a reserved job again, and says how far it is: up to 256 bytes that are shown until its next delivery.
    def touch(job, progress: nil) = ask(touching(job, progress))

    # Keeps up to 64 KiB for the next delivery of a reserved job, as safely as a put, and starts its TTR again. Empty data remove it.
    def checkpoint(job, data) = ask(with_data("checkpoint", job, data, "SAVED", "checkpoint"))

    # Returns the checkpoint of a job. NotFoundError: there is none.
    def get_checkpoint(job)
      ask(extension("get-checkpoint #{id_of(job)}", "OK", "checkpoint", repeat: true) { |reply| text_of(reply.body) })
    end

    # Gives a reserved job back. That is a failure, for this reason, unless failure is false. Its priority stays if that is known.
    def release(job, priority: nil, delay: 0, reason: nil, failure: true)
      ask(releasing(job, priority, delay, reason, failure))
    end

    # Sets a reserved job aside until it is kicked.
    def bury(job, priority: nil, reason: nil)
      tags = reason.to_s.empty? ? "" : " reason:#{Text.reason(reason)}"
      ask(settling("bury", job, " #{priority_of(job, priority)}", "BURIED", tags))
    end

    # Returns a job without reserving it.
    def peek(id) = peeking("peek #{id_of(id)}")

    # Returns the next ready job of the used tube.
    def peek_ready = peeking("peek-ready", @session.used)

    # Returns the delayed job of the used tube that is due first.
    def peek_delayed = peeking("peek-delayed", @session.used)

    # Returns the oldest buried job of the used tube.
    def peek_buried = peeking("peek-buried", @session.used)

    # Makes up to so many buried, or else delayed, jobs of the used tube ready, and returns their number. They begin anew, or at their checkpoints.
    def kick(bound, keep_checkpoint: false)
      ask(kicking("kick #{Integer(bound)}", keep_checkpoint, tube: @session.used, &expect("KICKED", &COUNT)))
    end

    # Makes a buried or delayed job ready.
    def kick_job(job, keep_checkpoint: false)
      ask(kicking("kick-job #{id_of(job)}", keep_checkpoint, &expect("KICKED")))
    end

    # Returns what the server knows about a job.
    def stats_job(job) = ask(paged("stats-job #{id_of(job)}"))

    # Returns the counts of a tube.
    def stats_tube(tube) = ask(paged("stats-tube #{Text.tube(tube)}"))

    # Returns the counts of the server.
    def stats = ask(paged("stats"))

    # Returns the tubes that exist.
    def tubes = ask(Request.new("list-tubes", repeat: true, &expect("OK", &NAMES)))

    # Returns the tube that is used.
    def using = @session.used

    # Returns the tubes that are watched.
    def watching = @session.watched.keys

    # Delivers no job of a tube for some time.
    def pause_tube(tube, delay) = ask(Request.new("pause-tube #{Text.tube(tube)} #{Text.whole(delay)}", &expect("PAUSED")))

    # Returns what the server can do beyond beanstalkd, which it is asked once for each connection.
    def capabilities
      with_session do |session|
        session.connect
        session.capabilities.to_a
      end
    end

    # Returns the job of a tube that has a key.
    def find(tube, key)
      ask(extension("find #{Text.tube(tube)} #{Text.word("key", key)}", "FOUND", "put-tags", repeat: true) { |reply| found(reply) })
    end

    # Deletes the job of a tube that has a key, even if it is reserved.
    def delete_key(tube, key) = ask(extension("delete-key #{Text.tube(tube)} #{Text.word("key", key)}", "DELETED", "put-tags"))

    # Sets the policy of a tube, or of all that begin with PREFIX if tube is "PREFIX*". Without options, deletes it.
    def set_policy(tube, **policy)
      ask(extension("set-policy #{Text.word("tube", tube)}#{Options.line(policy, Options::POLICY)}", "SET", "policy", repeat: true))
    end

    # Returns the policy of a tube or PREFIX*.
    def get_policy(tube) = ask(extension("get-policy #{Text.word("tube", tube)}", "OK", "policy", repeat: true, &PAGE))

    # Returns the tubes and prefixes that have a policy.
    def policies = ask(extension("list-policies", "OK", "policy", repeat: true, &NAMES))

    # Sets limits and weight of a group, instead of those of the policy. Without any, deletes them.
    def set_group(tube, group, **limits)
      ask(extension("#{group_line("set-group", tube, group)}#{Options.line(limits, Options::GROUP)}", "SET", "groups", repeat: true))
    end

    # Returns what set_group has set.
    def get_group(tube, group) = ask(extension(group_line("get-group", tube, group), "OK", "groups", repeat: true, &PAGE))

    # Returns the counts of a group, and its limits.
    def stats_group(tube, group) = ask(extension(group_line("stats-group", tube, group), "OK", "groups", repeat: true, &PAGE))

    # Delivers no job of a group for some time.
    def pause_group(tube, group, delay) = ask(extension("#{group_line("pause-group", tube, group)} #{Text.whole(delay)}", "PAUSED", "groups"))

    # Deletes the ready, delayed and buried jobs of a group, and returns their number.
    def flush_group(tube, group) = ask(extension(group_line("flush-group", tube, group), "FLUSHED", "groups", &COUNT))

    # Returns an Enumerator of the groups of a tube.
    def list_groups(tube) = pages("list-groups #{Text.tube(tube)} 100", "groups", "groups")

    # Deletes the jobs of a tube, or those in a state, and returns their number.
    def flush_tube(tube, state = nil) = ask(extension("flush-tube #{Text.tube(tube)} #{state}".rstrip, "FLUSHED", "flush", &COUNT))

    # Moves jobs in a state to another tube, and returns their number.
    def move_jobs(source, state, target, count)
      line = "move-jobs #{Text.tube(source)} #{Text.word("state", state)} #{Text.tube(target)} #{Integer(count)}"
      ask(extension(line, "MOVED", "move", &COUNT))
    end

    # Sends a dead letter back to its tube, or kicks a buried job. It begins anew, or at its checkpoint.
    def replay_job(job, keep_checkpoint: false)
      ask(kicking("replay-job #{id_of(job)}", keep_checkpoint, needs: [%w[replay replay-job]], &expect("REPLAYED")))
    end

    # Makes a ready or delayed job due after a delay.
    def reschedule(job, delay) = ask(extension("reschedule #{id_of(job)} #{Text.duration(delay)}", "RESCHEDULED", "put-tags"))

    # Changes the priority of a job that is not reserved.
    def set_priority(job, priority) = ask(extension("set-priority #{id_of(job)} #{Integer(priority)}", "UPDATED", "put-tags"))

    # Returns an Enumerator of the jobs of a tube in a state: ready, delayed, reserved or buried.
    def list_jobs(tube, state) = pages("list-jobs #{Text.tube(tube)} #{Text.word("state", state)} 100", "jobs", "list-jobs")

    # Returns a batch, without asking the server.
    def batch(name) = Batch.new(self, name)

    # Says that no more members of a batch come.
    def seal_batch(name) = ask(extension("seal-batch #{Text.batch(name)}", "SEALED", "batches", repeat: true))

    # Returns the state and the counts of a batch.
    def stats_batch(name) = ask(extension("stats-batch #{Text.batch(name)}", "OK", "batches", repeat: true) { |reply| typed_page(reply) })

    # Seals a batch, deletes the members that are not reserved, and returns their number.
    def cancel_batch(name) = ask(extension("cancel-batch #{Text.batch(name)}", "CANCELLED", "batches", &COUNT))

    # Creates a schedule, or replaces the one with that name. While its times stay the same it keeps its place.
    def set_schedule(name, tube, body, priority: DEFAULT_PRIORITY, delay: 0, ttr: DEFAULT_TTR, **options)
      line = "set-schedule #{Text.tube(name)} #{Text.tube(tube)} #{checked_priority(priority)} #{[Text.whole(ttr), 1].max} #{binary(body).bytesize}"
      line += " delay:#{Text.duration(delay)}" if Text.seconds(delay).positive?
      ask(extension(line + Options.line(options, Options::SCHEDULE), "SET", "schedules", repeat: true, body: binary(body)))
    end

    # Returns what a schedule puts and when, and what came of it.
    def get_schedule(name) = ask(extension("get-schedule #{Text.tube(name)}", "OK", "schedules", repeat: true) { |reply| typed_page(reply) })

    # Returns an Enumerator of the schedules, by name.
    def list_schedules = pages("list-schedules 100", "schedules", "schedules")

    # Deletes a schedule. Its jobs stay.
    def delete_schedule(name) = ask(extension("delete-schedule #{Text.tube(name)}", "DELETED", "schedules"))

    # Stops a schedule until resume_schedule.
    def pause_schedule(name) = ask(extension("pause-schedule #{Text.tube(name)}", "PAUSED", "schedules", repeat: true))

    # Starts a paused schedule again. Times that have passed meanwhile are skipped.
    def resume_schedule(name) = ask(extension("resume-schedule #{Text.tube(name)}", "RESUMED", "schedules", repeat: true))

    # Puts a job of a schedule now, and returns its id. Its state is that of the job that has prevented it, if one has.
    def run_schedule(name) = ask(extension("run-schedule #{Text.tube(name)}", "INSERTED", "schedules", &INSERTED))

    # Returns the next times of a schedule, at most 1000.
    def preview_schedule(name, count = 10) = previewed(Text.tube(name), count)

    # Returns the next times of a cron expression, at most 1000.
    def preview_cron(cron, count = 10, tz: "UTC") = previewed(Text.quoted(cron), count, " tz:#{Text.quoted(tz)}")

    # Returns the command that touch sends.
    def touching(job, progress)
      settling("touch", job, "", "TOUCHED", progress.nil? ? "" : " progress:#{Text.progress(progress)}", "progress")
    end

    private

    COUNT = ->(reply) { Integer(reply.args[0], 10) }
    INSERTED = ->(reply) { Inserted.new(Integer(reply.args[0], 10), reply.args[1]) }
    NAMES = ->(reply) { Text.names(reply.body) }
    PAGE = ->(reply) { Text.page(reply.body) }
    FLAGS = %w[sealed paused all].freeze # of pages about batches and schedules
    TEXTS = %w[name tube batch next schedule to-tube].freeze # also if they are digits
    private_constant :COUNT, :INSERTED, :NAMES, :PAGE, :FLAGS, :TEXTS

    # Returns a reader that raises unless the reply has this word.
    def expect(word, &read)
      ->(reply) { reply.word == word ? read&.call(reply) : raise(reply.error) }
    end

    # Returns a command that beanstalkd does not have.
    def extension(line, word, capability, repeat: false, body: nil, &read)
      Request.new(line, needs: [[capability, line[/\S+/]]], repeat: repeat, body: body, &expect(word, &read))
    end

    def paged(line) = Request.new(line, repeat: true, &expect("OK", &PAGE))

    # Returns an Enumerator of what is on all pages.
    def pages(line, key, capability)
      Enumerator.new do |found|
        cursor = ""
        until cursor.nil?
          page = ask(extension("#{line} #{cursor}".rstrip, "OK", capability, repeat: true) { |reply| typed_page(reply) })
          page[key].each { |one| found << one }
          cursor = page["next"].to_s.empty? ? nil : page["next"]
        end
      end
    end

    def kicking(line, keep_checkpoint, needs: [], **settings, &read)
      return Request.new(line, needs: needs, **settings, &read) unless keep_checkpoint

      Request.new("#{line} keep-checkpoint", needs: [*needs, %w[checkpoint checkpoint]], **settings, &read)
    end

    def group_line(verb, tube, group) = "#{verb} #{Text.tube(tube)} #{Text.quoted(group)}"

    def previewed(what, count, tags = "")
      ask(extension("preview-schedule #{what} #{Integer(count)}#{tags}", "OK", "schedules", repeat: true) do |reply|
        Text.names(reply.body).map { |time| Time.iso8601(time) }
      end)
    end

    def typed_page(reply) = Text.page(reply.body).to_h { |key, value| [key, typed_value(key, value)] }

    def typed_value(key, value)
      case value
      when Array then value.map { |item| item.to_h { |name, one| [name, typed_value(name, one)] } }
      when String then FLAGS.include?(key) ? value == "true" : value
      else TEXTS.include?(key) ? value.to_s : value
      end
    end

    def id_of(job) = job.respond_to?(:id) ? job.id : Integer(job)

    def checked_priority(priority)
      Integer(priority).between?(0, 2**32 - 1) ? Integer(priority) : raise(ArgumentError, "priority #{priority}")
    end

    def binary(body)
      raise TypeError, "a body is a String, not #{body.class}" unless body.is_a?(String)

      body.b
    end

    # Returns a body in UTF-8 if it is that, else in binary.
    def text_of(body)
      text = body.dup.force_encoding(Encoding::UTF_8)
      text.valid_encoding? ? text : body
    end

    # Returns a put. Fractions of a delay need redstalk; beanstalkd gets whole seconds.
    def putting(body, tube: nil, priority: DEFAULT_PRIORITY, delay: 0, ttr: DEFAULT_TTR, **tags)
      tags.compact!
      line = "put #{checked_priority(priority)} %d #{[Text.whole(ttr), 1].max} #{binary(body).bytesize}"
      tag = Options.line(tags, Options::PUT)
      tag = " delay:#{Text.duration(delay)}#{tag}" if !tags[:at] && Text.seconds(delay) != Text.whole(delay)
      settings = { body: binary(body), tube: tube ? Text.tube(tube) : @session.used, fails_over: true, repeat: Options.idempotent?(tags) }
      settings[:needs] = Options.needs(tags.except(:at, *(:meta if tags[:meta].is_a?(Envelope))))
      if settings[:needs].empty? && !tag.empty? # at, a fraction of the delay, or the meta of an envelope
        settings[:needs] = [["put-tags", ""], ["meta", ""]]
        settings[:plain] = format(line, tags[:at] ? Text.whole(Text.milliseconds(tags[:at]) / 1000.0 - Time.now.to_f) : Text.whole(delay))
      end
      Request.new(format(line, Text.whole(delay)) + tag, **settings, &expect("INSERTED", &INSERTED))
    end

    # The meta of a job with a type, which a server without meta does not need.
    class Envelope < Hash; end
    private_constant :Envelope

    def typed(type, data, meta)
      raise ArgumentError, "an empty type" if type.to_s.empty?

      plain = Envelope["content-type", "application/json"]
      [JSON.generate({ "type" => type.to_s, "data" => data }, max_nesting: Text::MAX_NESTING), { meta: meta.empty? ? plain : plain.merge(meta.transform_keys(&:to_s)).to_h }]
    end

    def putting_one(job)
      return putting(job) unless job.is_a?(Hash)

      options = job.transform_keys(&:to_sym)
      return putting(options.delete(:body), **options) unless options[:type]

      body, meta = typed(options.delete(:type), options.delete(:data), options.delete(:meta) || {})
      putting(body, **meta, **options)
    end

    def reserving(count, wait)
      sent = Redstalk.now
      settings = { needs: [["lease", ""], ["info", ""]], plain: "reserve-with-timeout #{wait}", repeat: true, wait: wait + 0.001 }
      Request.new("reserve-batch #{count} #{wait} lease info", **settings) do |reply|
        case reply.word
        when "TIMED_OUT" then []
        when "RESERVED", "RESERVED_BATCH" then reply.jobs.map { |job| held(*job, sent) }
        else raise reply.error
        end
      end
    end

    def held(id, lease, body, info, sent)
      job = Job.new(
        id: id, body: text_of(body), lease: lease, info: info.to_s.empty? ? {} : JSON.parse(info), reserved_at: sent,
        connection: lease ? nil : @session.connection
      )
      @session.hold(job)
      job
    end

    def found(reply)
      id, _, body = reply.jobs.first
      Job.new(id: id, body: text_of(body), info: {})
    end

    def peeking(line, tube = nil)
      ask(Request.new(line, tube: tube, repeat: true, &expect("FOUND") { |reply| found(reply) }))
    end

    # Returns a command about a reservation, or about a job that nobody has reserved. A server that lacks the capability gets it without tags.
    def settling(verb, job, args, word, tags = "", capability = "reason", body: nil)
      held = reserved(job)
      id, lease = id_of(job), held&.lease
      plain = lease ? "#{verb}-lease #{id} #{lease}#{args}" : "#{verb} #{id}#{args}"
      settings = { repeat: !lease.nil?, body: body, connection: (held.connection if held && !lease) }
      settings.update(needs: [[capability, ""]], plain: plain) unless tags.empty?
      settings.update(needs: [[capability, capability]]) if body
      ends = !%w[touch checkpoint].include?(verb)
      Request.new(plain + tags, **settings) do |reply|
        @session.forget(id, lease) if reply.word == "NOT_FOUND" || (ends && reply.word == word)
        raise reply.error if reply.word != word
      end
    end

    def with_data(verb, job, data, word, capability)
      body = binary(data)
      raise JobTooBigError, "#{body.bytesize} bytes" if body.bytesize > MAX_DATA

      settling(verb, job, " #{body.bytesize}", word, "", capability, body: body)
    end

    def releasing(job, priority, delay, reason, failure)
      tags = " failure:no" unless failure
      tags ||= " reason:#{Text.reason(reason)}" unless reason.to_s.empty?
      settling("release", job, " #{priority_of(job, priority)} #{Text.delay(delay)}", "RELEASED", tags.to_s)
    end

    # Returns the given priority, or else the one that the job has, if that is known.
    def priority_of(job, given)
      checked_priority(given || reserved(job)&.info&.fetch("pri", nil) || DEFAULT_PRIORITY)
    end

    # Returns a job that was reserved, by itself or by its id.
    def reserved(job)
      job.is_a?(Job) && (job.lease || job.connection) ? job : @session.held[id_of(job)]
    end
  end
end
