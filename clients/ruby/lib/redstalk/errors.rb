# frozen_string_literal: true

module Redstalk
  # The base of all exceptions of this library. An argument that cannot be sent is an ArgumentError, and nothing was sent.
  class Error < StandardError; end

  # No server could be reached in time. The command was not carried out.
  class UnavailableError < Error; end

  # The connection was lost after the command was sent, so it may have been carried out.
  class UnknownOutcomeError < Error; end

  # The client was closed.
  class ClosedError < Error; end

  # The reply cannot be understood. The connection is closed.
  class UnknownResponseError < Error; end

  # The server lacks a feature, as beanstalkd lacks keys. Nothing was done.
  class UnsupportedError < Error
    attr_reader :feature

    def initialize(feature)
      super("the server does not support #{feature}")
      @feature = feature
    end
  end

  # The job whose result was asked for has ended otherwise than done, or is parked.
  class EndedError < Error
    attr_reader :id, :how, :reason

    def initialize(id, how, reason)
      super("job #{id} is #{how}#{": #{reason}" unless reason.empty?}")
      @id, @how, @reason = id, how, reason
    end
  end

  # The server refused a command.
  class RefusedError < Error; end

  # The server cannot read the command: an argument is invalid.
  class BadFormatError < RefusedError; end

  # The batch of a put is sealed: it takes no more members.
  class BatchSealedError < RefusedError; end

  # The server had too little memory to make the job ready, so it is buried.
  class BuriedError < RefusedError; end

  # A job that this connection holds is within a second of the end of its TTR (beanstalkd only).
  class DeadlineSoonError < RefusedError; end

  # No server accepts puts at present.
  class DrainingError < RefusedError; end

  # The key of a put with on_duplicate: "fail" is taken, by the job with this id.
  class DuplicateError < RefusedError
    attr_reader :id

    def initialize(line)
      super
      @id = Integer(line.split.fetch(1), 10)
    end
  end

  # The body did not end in CR LF.
  class ExpectedCrlfError < RefusedError; end

  # The user lacks a right.
  class ForbiddenError < RefusedError; end

  # The server failed in the middle of a command, which may have been carried out.
  class InternalError < RefusedError; end

  # The body, a result or a checkpoint exceeds the largest size that the server accepts.
  class JobTooBigError < RefusedError; end

  # There is no such job, key, tube, policy, schedule or batch, or the job is not in a state for that, or no longer reserved.
  class NotFoundError < RefusedError; end

  # The only watched tube cannot be ignored.
  class NotIgnoredError < RefusedError; end

  # Neither the job nor the policy of its tube has keep: nothing is kept of it when it has ended.
  class NotKeptError < RefusedError; end

  # The server or the quota of the tube is full.
  class OutOfMemoryError < RefusedError; end

  # No job was ready, or had ended, in time.
  class TimedOutError < RefusedError; end

  # The user or the secret is wrong.
  class UnauthorizedError < RefusedError; end

  # The server does not know the command.
  class UnknownCommandError < RefusedError; end

  REFUSALS = {
    "BAD_FORMAT" => BadFormatError, "BATCH_SEALED" => BatchSealedError, "BURIED" => BuriedError, "DEADLINE_SOON" => DeadlineSoonError,
    "DRAINING" => DrainingError, "DUPLICATE" => DuplicateError, "EXPECTED_CRLF" => ExpectedCrlfError, "FORBIDDEN" => ForbiddenError,
    "INTERNAL_ERROR" => InternalError, "JOB_TOO_BIG" => JobTooBigError, "NOT_FOUND" => NotFoundError, "NOT_IGNORED" => NotIgnoredError,
    "NOT_KEPT" => NotKeptError, "OUT_OF_MEMORY" => OutOfMemoryError, "TIMED_OUT" => TimedOutError, "UNAUTHORIZED" => UnauthorizedError,
    "UNKNOWN_COMMAND" => UnknownCommandError
  }.freeze
  private_constant :REFUSALS
end
