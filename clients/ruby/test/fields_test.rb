# frozen_string_literal: true

require "json"
require_relative "server"

# The options of commands and the tags that the server knows are the same.
class FieldsTest < Minitest::Test
  FIELDS = JSON.parse(IO.popen([Server::PROGRAM, "--fields"], &:read))
  # Those that are arguments of a method.
  ARGUMENTS = [:delay].freeze

  def fields(command) = FIELDS.select { |field| field["in"].include?(command) }

  def test_arguments
    %w[touch release bury kick kick-job replay-job preview-schedule].each do |command|
      method = command == "preview-schedule" ? :preview_cron : command.tr("-", "_")
      names = Redstalk::Client.instance_method(method).parameters.map { |_, name| name.to_s }
      assert_empty fields(command).map { |field| field["name"].tr("-", "_") } - names, command
    end
  end

  def test_options
    options = Redstalk.module_eval("Options", __FILE__, __LINE__) # which is private
    { "put" => :PUT, "set-policy" => :POLICY, "set-group" => :GROUP, "set-schedule" => :SCHEDULE }.each do |command, list|
      names = options.const_get(list) + (command.match?(/put|schedule/) ? ARGUMENTS : [])
      tags = names.to_h { |name| [options::WIRE[name] || name.to_s.tr("_", "-"), name] }
      known = fields(command).to_h { |field| field.values_at("name", "value") }
      assert_equal known.keys.sort, tags.keys.sort, command
      tags.each { |tag, name| assert_equal " #{tag}:1500ms", options.tag(name, 1.5) if known[tag] == "DURATION" && name != :delay }
    end
  end
end
