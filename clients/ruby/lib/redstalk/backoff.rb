# frozen_string_literal: true

module Redstalk
  # How long a worker waits after a failure, where neither the job nor its tube has a retry list: something with call, which takes the number of
  # failures, at least 1, and returns the seconds to wait, or nil to bury the job.
  module Backoff
    module_function

    # Waits first, then twice as long each time, up to a tenth longer or shorter. After limit failures buries; 0 is no limit.
    def exponential(first: 1, longest: 3600, limit: 0)
      lambda do |failures|
        next if limit.positive? && failures > limit

        [first * 2**[failures - 1, 40].min, longest].min * rand(0.9..1.1)
      end
    end

    # Waits as the list says, and then buries the job.
    def intervals(*waits) = ->(failures) { waits[failures - 1] }
  end
end
