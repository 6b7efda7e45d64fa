# frozen_string_literal: true

module Redstalk
  VERSION = "0.3.0"
end
