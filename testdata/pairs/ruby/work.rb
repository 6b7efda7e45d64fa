# frozen_string_literal: true

# work.rb ADDR TUBE TO: handles typed jobs until SIGTERM. The first delivery of each fails after it has saved a checkpoint.

$LOAD_PATH.unshift File.expand_path("../../../clients/ruby/lib", __dir__)
require "redstalk"

address, tube, to = ARGV
worker = Redstalk::Worker.new(address)
worker.handle(tube, type: "pair") do |job|
  checkpoint = job.last_checkpoint
  if checkpoint.nil?
    job.checkpoint({ step: 1 })
    job.progress("1/2")
    raise "first try of #{to}"
  end
  {
    to: to,
    from: job.data["from"],
    n: job.data["n"] + 1,
    text: job.data["text"],
    step: checkpoint["step"],
    key: job.key,
    request: job.meta["request"],
    type: job.meta["content-type"],
    trace: job.trace,
    group: job.group,
    batch: job.batch,
    reason: job.reason
  }
end
worker.run
