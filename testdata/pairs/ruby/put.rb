# frozen_string_literal: true

# put.rb ADDR TUBE FROM: puts a typed job, waits for its end, and prints its result.

$LOAD_PATH.unshift File.expand_path("../../../clients/ruby/lib", __dir__)
require "redstalk"

address, tube, from = ARGV
client = Redstalk::Client.new(address)
job = client.put_typed(
  "pair",
  { from: from, n: 7, text: "é\n" },
  tube: tube,
  key: "pair-#{from}-#{tube}",
  meta: { request: "4711" },
  trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  batch: "batch-#{tube}",
  group: "acme",
  keep: 3600,
  retry: [0, 0]
)
puts JSON.generate(client.wait(job, timeout: 60).value)
