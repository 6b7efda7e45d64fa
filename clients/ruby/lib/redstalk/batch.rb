# frozen_string_literal: true

module Redstalk
  # A batch on the server: jobs after which other jobs run. The first command creates it. Client#batch returns it.
  class Batch
    attr_reader :name

    def initialize(client, name)
      @client, @name = client, name
    end

    # Puts a job that is a member, with the options of a put. After seal it raises BatchSealedError.
    def add(body, **options) = @client.put(body, **options, batch: @name)

    # Puts a job that runs when the batch is sealed and all members are deleted. Once that is impossible it is buried.
    def then(body, **options) = @client.put(body, **options, after: @name)

    # Puts a job that runs when the batch is sealed and all members have ended, however they did.
    def then_all(body, **options) = @client.put(body, **options, after_all: @name)

    # Says that no more members come. The jobs after the batch do not run before.
    def seal = @client.seal_batch(@name)

    # Returns the state and the counts of the batch, and the first jobs after it.
    def stats = @client.stats_batch(@name)

    # Seals the batch, deletes the members that are not reserved, and returns their number.
    def cancel = @client.cancel_batch(@name)
  end
end
