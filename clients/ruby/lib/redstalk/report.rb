# frozen_string_literal: true

module Redstalk
  # Says what happens in a worker, also if texts of exceptions or the logger raise something themselves.
  class Report
    # Writes lines to the standard error; messages of the level info are left out.
    class Lines
      def info(_message) = nil

      def warn(message) = line("WARN", message)

      def error(message) = line("ERROR", message)

      private

      def line(level, message) = $stderr.write("#{Time.now.strftime("%F %T")} #{level} redstalk: #{message}\n")
    end

    # The logger is one as that of Ruby or Rails: it has info, warn and error.
    def initialize(logger = nil)
      @logger = logger || Lines.new
    end

    # Logs a message, with the backtrace of an exception.
    def log(level, message, error = nil)
      trace = error && self.class.backtrace(error)
      @logger.public_send(level, trace.to_s.empty? ? message : "#{message}\n#{trace}")
    rescue Exception # rubocop:disable Lint/RescueException -- whatever the logger raises
      nil
    end

    # Returns the text of an exception, or what its class is called if there is no text.
    def self.text_of(error)
      Text.utf8("#{error.message}")
    rescue Exception # rubocop:disable Lint/RescueException -- whatever user code raises
      "#{class_of(error)}, whose text cannot be read"
    end

    # Returns the class and the text of an exception.
    def self.named(error)
      text, name = text_of(error), class_of(error)
      text.empty? || text.start_with?(name) ? "#{name}#{text.delete_prefix(name)}" : "#{name}: #{text}"
    end

    # Returns the name of the class, also if the class says something else.
    def self.class_of(error)
      Module.instance_method(:name).bind_call(Kernel.instance_method(:class).bind_call(error)) || "an exception"
    end

    # Returns the lines of the backtrace that are not of this library.
    def self.backtrace(error)
      error.backtrace&.take_while { |line| !line.start_with?(__dir__) }&.first(20)&.map { |line| "    #{line}" }&.join("\n")
    rescue Exception # rubocop:disable Lint/RescueException -- whatever user code raises
      nil
    end
  end
  private_constant :Report
end
