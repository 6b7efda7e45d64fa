package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// logging is the output of the log.
type logging struct {
	io.Writer

	// end writes the buffered lines and a last one, as long as there is a reader.
	end func(line string)
}

// exit ends the process with a last line.
func (l *logging) exit(code int, line string) {
	l.end(line)
	os.Exit(code)
}

// newLog returns a log of warnings and errors; each -V adds a level.
func newLog(w io.Writer, s *settings) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case s.verbosity == 1:
		level = slog.LevelInfo
	case s.verbosity > 1:
		level = slog.LevelDebug
	}
	return logAt(level, w, s)
}

// newAnnouncer returns the log of the line that says that the server serves. It also shows without -V, unless -q is set.
func newAnnouncer(w io.Writer, s *settings) *slog.Logger {
	if s.quiet {
		return newLog(w, s)
	}
	return logAt(slog.LevelInfo, w, s)
}

func logAt(level slog.Level, w io.Writer, s *settings) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: stringValues}
	to := func(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, options)) }
	if s.logJSON {
		to = func(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, options)) }
	}
	if sink, ok := w.(*lineSink); ok {
		sink.dropped = func(w io.Writer, lines int) {
			to(w).Warn("lines of the log were dropped here, as nobody read them in time", "lines", lines)
		}
	}
	return to(w)
}

// stringValues writes a fmt.Stringer as its string. Without it, addresses would be
// structures in JSON, and durations nanoseconds.
func stringValues(_ []string, a slog.Attr) slog.Attr {
	if text, ok := a.Value.Any().(fmt.Stringer); ok && a.Value.Kind() != slog.KindTime {
		a.Value = slog.StringValue(text.String())
	}
	return a
}
