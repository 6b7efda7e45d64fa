# frozen_string_literal: true

require_relative "lib/redstalk/version"

Gem::Specification.new do |gem|
  gem.name = "redstalk"
  gem.version = Redstalk::VERSION
  gem.summary = "Client, workers and Active Job adapter for the work queue redstalk, and for beanstalkd"
  gem.authors = ["The redstalk authors"]
  gem.license = "MIT"
  gem.homepage = "https://example.invalid/redstalk"
  gem.metadata = {
    "source_code_uri" => gem.homepage, "bug_tracker_uri" => "#{gem.homepage}/issues", "changelog_uri" => "#{gem.homepage}/blob/HEAD/CHANGELOG.md"
  }
  gem.required_ruby_version = ">= 3.1"
  gem.files = Dir["lib/**/*.rb", "exe/*", "README.md", "LICENSE", "CHANGELOG.md"]
  gem.bindir = "exe"
  gem.executables = ["redstalk-worker"]
end
