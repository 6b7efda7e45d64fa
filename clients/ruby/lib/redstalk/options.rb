# frozen_string_literal: true

require_relative "text"

module Redstalk
  # The options of puts, schedules, policies and groups; docs/extensions.md says what each one does.
  module Options
    JOB = %i[key key_ttl retry max_deliveries dead expire on_expire keep meta trace group batch after after_all batch_ttl].freeze
    PUT = [*JOB, :jitter, :at, :on_duplicate].freeze
    SCHEDULE = [*JOB, :cron, :every, :tz, :start, :until, :spread, :overlap, :catch_up, :catch_up_all].freeze
    POLICY = %i[
      key_ttl on_duplicate retry jitter max_deliveries dead expire on_expire keep keep_bytes quota_jobs quota_bytes group_concurrency group_rate
      group_order concurrency rate push push_concurrency push_timeout push_rate
    ].freeze
    GROUP = %i[concurrency rate weight ttl].freeze

    # Those that are called otherwise on the wire.
    WIRE = { max_deliveries: "max", start: "from", spread: "jitter" }.freeze

    DURATIONS = %i[key_ttl expire keep ttl batch_ttl every spread catch_up push_timeout].freeze
    TIMES = %i[at start until].freeze
    BATCHES = %i[batch after after_all].freeze

    # The capabilities that options of a put need, beyond put-tags.
    NEEDS = {
      jitter: "backoff", expire: "expire", on_expire: "expire", keep: "results", meta: "meta", trace: "meta", group: "groups",
      batch: "batches", after: "batches", after_all: "batches", batch_ttl: "batches"
    }.freeze

    module_function

    # Returns the options as they continue a line.
    def line(given, known)
      check(given, known)
      given.compact.map { |name, value| tag(name, value) }.join
    end

    def check(given, known)
      unknown = given.keys - known
      raise ArgumentError, "unknown keyword: #{unknown.map(&:inspect).join(", ")}" unless unknown.empty?
    end

    def tag(name, value)
      return value.map { |key, text| " meta:#{Text.meta_name(key)}=#{Text.quoted(text)}" }.join if name == :meta

      " #{WIRE[name] || name.to_s.tr("_", "-")}:#{written(name, value)}"
    end

    def written(name, value)
      case name
      when *TIMES then Text.milliseconds(value)
      when *DURATIONS then Text.duration(value)
      when *BATCHES then Text.batch(value)
      when :dead then Text.tube(value)
      when :cron, :tz, :group then quoted(name, value)
      when :retry then value.is_a?(String) ? Text.word(name, value) : Text.word(name, Array(value).map { |wait| Text.duration(wait) }.join(","))
      else Text.word(name, value)
      end
    end

    def quoted(name, value)
      raise ArgumentError, "an empty #{name}" if value.to_s.empty?

      Text.quoted(value)
    end

    # Returns the capabilities that a put needs, each with the feature for the error.
    def needs(given)
      given.compact.flat_map do |name, value|
        more = NEEDS[name] || ("backoff" if name == :retry && value.to_s.start_with?("exp("))
        ["put-tags", *more].map { |capability| [capability, "put with #{name}"] }
      end
    end

    # Reports whether a put has no further effect when it is repeated.
    def idempotent?(given)
      !!(given[:key] && given[:key_ttl] && Text.seconds(given[:key_ttl]).positive? && (given[:on_duplicate] || "keep").to_s == "keep")
    end
  end
  private_constant :Options
end
