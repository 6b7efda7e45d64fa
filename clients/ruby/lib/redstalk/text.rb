# frozen_string_literal: true

require "json"
require "strscan"

module Redstalk
  # How values are written in commands, and read from pages of the server.
  module Text
    MAX_REASON = 512 # bytes
    MAX_PROGRESS = 256
    MAX_DELAY = 2**32 - 1 # seconds
    MAX_NESTING = 512 # of a job with a type; that of JSON is 100

    module_function

    # Returns the name, if a tube can have it.
    def tube(name)
      checked("tube", name, %r{\A[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}\z}, "letters, digits and +/;.$_()-, not begin with -, and have at most 200 bytes")
    end

    # Returns the value, if it is printable ASCII without spaces.
    def word(what, value)
      checked(what, value, /\A[!-~]+\z/, "printable ASCII without spaces")
    end

    # Returns the name, if a batch can have it.
    def batch(name)
      checked("batch", name, /\A[!-~]{1,100}\z/, "printable ASCII without spaces, at most 100 bytes")
    end

    def meta_name(name)
      checked("meta", name, /\A[A-Za-z0-9_-]+\z/, "letters, digits, _ and -")
    end

    def checked(what, value, pattern, rule)
      text = value.to_s
      raise ArgumentError, "#{what} #{value.inspect}: it must be #{rule}" unless text.b.match?(pattern)

      text
    end

    # Returns the value in quotes, without what a quoted value cannot have.
    def quoted(value)
      %("#{printable(value).gsub(/[\\"\n\t]/, "\\" => "\\\\", '"' => '\\"', "\n" => "\\n", "\t" => "\\t")}")
    end

    def printable(value)
      utf8(value.to_s).gsub(/[^\n\t -~\u00a0-\u{10ffff}]|\ufffd/, "")
    end

    # Returns the text in UTF-8, without what is not.
    def utf8(value)
      return value.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "") unless [Encoding::UTF_8, Encoding::BINARY].include?(value.encoding)

      value.dup.force_encoding(Encoding::UTF_8).scrub("")
    end

    # Returns the beginning of a reason in quotes.
    def reason(value) = quoted(beginning(value, MAX_REASON))

    # Returns the beginning of a progress in quotes.
    def progress(value) = quoted(beginning(value, MAX_PROGRESS))

    def beginning(value, limit)
      printable(value).byteslice(0, limit).scrub("")
    end

    # Returns a duration in seconds, at least 0. It can be a number, or a duration of Rails.
    def seconds(value)
      raise ArgumentError, "duration #{value.inspect}" if value.is_a?(String) || !value.respond_to?(:to_f) || value.nil?

      number = value.is_a?(Integer) ? value : value.to_f
      raise ArgumentError, "duration #{value.inspect}" if number.is_a?(Float) && !number.finite?

      [number, 0].max
    end

    # Returns whole seconds, rounded up.
    def whole(value) = seconds(value).ceil

    # Returns whole seconds for which a server can delay a job.
    def delay(value)
      number = whole(value)
      raise ArgumentError, "delay of more than #{MAX_DELAY} s" if number > MAX_DELAY

      number
    end

    # Returns a duration as tags have it, to the millisecond, rounded up.
    def duration(value)
      number = (seconds(value) * 1000).round(3).ceil
      (number % 1000).zero? ? "#{number / 1000}s" : "#{number}ms"
    end

    # Returns a time in milliseconds since 1970.
    def milliseconds(time)
      time = time.to_time if time.respond_to?(:to_time)
      raise ArgumentError, "time #{time.inspect}" unless time.is_a?(Time)

      [(time.to_r * 1000).round, 0].max
    end

    # Parses a page of keys and values; a key can have a list.
    def page(body)
      result = {}
      items = []
      utf8(body).each_line(chomp: true) do |line|
        if line.start_with?("- ")
          items << scalar(line[2..].strip)
        elsif line.include?(":")
          key, value = line.split(":", 2)
          result[key] = value.strip.empty? ? (items = []) : scalar(value.strip)
        end
      end
      result
    end

    # Parses a list of names.
    def names(body)
      utf8(body).each_line(chomp: true).filter_map { |line| line[2..].strip.delete('"') if line.start_with?("- ") }
    end

    # Returns the value of a key: an Integer, a String, as a name such as 007 is, or what a line of YAML has.
    def scalar(value)
      return value.to_i if value.match?(/\A(0|[1-9][0-9]*)\z/)
      return JSON.parse(value) if value.start_with?('"')
      return value unless value.start_with?("{", "[")

      flow(StringScanner.new(value))
    end

    # Parses YAML in one line, such as {id: 7, tubes: ["a"]}.
    def flow(scanner)
      scanner.skip(/\s+/)
      if scanner.skip(/\{/)
        pairs(scanner)
      elsif scanner.skip(/\[/)
        items(scanner)
      else
        scalar((scanner.scan(/"(?:[^"\\]|\\.)*"|[^,{}\[\]"]+/) or raise ArgumentError, "cannot read #{scanner.string}").strip)
      end
    end

    def pairs(scanner)
      result = {}
      until scanner.skip(/\s*\}/)
        scanner.skip(/\s*,\s*/)
        key = scanner.scan(/"(?:[^"\\]|\\.)*"|[^\s,{}\[\]":]+/) or raise ArgumentError, "cannot read #{scanner.string}"
        scanner.skip(/\s*:\s*/)
        result[key.start_with?('"') ? JSON.parse(key) : key] = flow(scanner)
      end
      result
    end

    def items(scanner)
      result = []
      until scanner.skip(/\s*\]/)
        result << flow(scanner)
        scanner.skip(/\s*,\s*/)
      end
      result
    end
  end
  private_constant :Text
end
