# frozen_string_literal: true

module Redstalk
  VERSION = "0.2.0"
end
