// Package transcript plays written dialogues with a work-queue server and
// reports where the server deviates from them.
//
// It contains the format of a transcript ([Parse], [Load]), the player
// ([Play]), the recorder that writes the real server's replies into a transcript
// ([Record]), and a helper that starts a server for each
// transcript ([StartBeanstalkd], [Start]). It has no knowledge of
// redstalk, and imports nothing outside tools/conformance, so the same files
// test redstalk, beanstalkd and any other server of the protocol.
//
// # Files
//
//   - parse.go, directive.go, text.go, load.go: reading files.
//   - play.go, steps.go, expect.go, page.go, dialog.go, due.go: playing them, and comparing replies.
//   - target.go, start.go, link.go: the server, and connections to it.
//   - late.go: machines that are too slow. record.go: the recorder.
//
// The invariant: every transcript in testdata/transcripts holds on the real
// beanstalkd. Where redstalk deliberately differs, the file says so in an
// `only` block with the reason; everything outside such blocks is true of
// both.
//
// # The format
//
// A file shows one behaviour. Lines starting with # are comments; the opening
// comment says what is shown. A line that starts with a connection's name is
// dialogue, any other line is a directive.
//
//	a> TEXT        send TEXT and CR LF (the connection opens at its first mention)
//	a>> TEXT       send TEXT alone: a fragment, a body without its line end
//	a~> TEXT       send TEXT and CR LF, a byte at a time
//	a?> TEXT       send TEXT and CR LF, again and again until the reply is as the next
//	               line says: for what a server may take a moment to notice
//	a< REPLY       the next reply on a is this line
//	a= TEXT        the body of the data reply in the line before
//
// Send lines of one connection on adjacent lines go out in one write (one
// packet); a blank line between them makes two writes.
//
// In TEXT, \r \n \t \0 \s (space) \\ \$ \{ \xNN are escapes, {ab*300} is "ab"
// three hundred times, and $j1 is a job id: bound by the INSERTED (or BURIED)
// reply that first names it, to an id greater than all bound before, and the
// same id wherever it is named again. $t1, or any name that begins with t, is a token of
// letters and digits, bound by the first line that names it. In expectations {int}, {3..5}, {decimal},
// {hex} and {any} stand for a number, a number in that range (inclusive), a
// number with a fraction, hex digits, and anything.
//
// Data replies are read whole: the count in the first line must agree with
// where the CR LF after the body stands. RESERVED, FOUND, LEASED and ENDED are followed by an
// a= line. Pages are written in one of these forms:
//
//	a< OK 14                            byte for byte: the body follows
//	a= ---\n- default\n
//	a< OK list default a b              a list of names in this order
//	a< OK set default a b               the same names in any order
//	a< OK with state: ready, pri: 5     a stats page where these keys have these values
//	a< OK page                          a stats page with all of these keys in this
//	   id: $j1                          order, one to an indented line; only further
//	   tube: default                    keys may follow
//
// Quotes around a value of a page are stripped before the comparison unless
// the expectation has them too.
//
// A reply may carry the time it is due, counted from the last send on its
// connection or from a mark: a< [1s] TIMED_OUT, a< [0.9s..1.5s after m] ...,
// a< [now] DEADLINE_SOON. A reply is never allowed to be early, but may come
// late by [Target.Slack]. Replies without a time must come within
// [Target.Patience].
//
// Directives:
//
//	server -z 10        flags the server must be started with (first line but comments)
//	open b              connect now rather than at the first send
//	close a             close;   halfclose a   shut down the writing side;   reset a   RST
//	eof a [now]         the server closes a, with nothing left to read; the time is optional
//	silent a b 100ms    nothing arrives on these connections during that time
//	wait 1.2s           sleep;   wait 2s after m   sleep until then
//	mark m              remember this moment (put it before the send it times)
//	signal USR1         send a signal to the server process
//	race a b as w l     wait until one of a, b has a reply; call it w, the other(s) l ...
//	only KIND: reason   up to `end`: for this kind of server only ("beanstalkd" takes
//	end                 in "beanstalkd-1.12"); the reason must be given
//
// When a connection was left without an answer (a waiting reserve, a close)
// and another one sends next, the player first pauses for [Target.Pause], so
// that the server sees the two in the order of the file.
//
// # When the machine is slow
//
// The player sums up by how much its steps, and the replies that it waits for,
// take longer than the transcript says. If a timed transcript fails after
// that sum exceeded [Target.Tolerance], it proves nothing: [Play] returns a
// [LateError], and [PlayInTime] plays it again on a fresh server, at most five
// times. A failure within the tolerance, or of a transcript without times, counts at once.
//
// # How to add a transcript
//
// Write the sent lines, put the file into testdata/transcripts, run
// `go run ./tools/conformance/play record FILE` and read what beanstalkd answered.
// Timing, masks and reasons are the author's; the recorder keeps them.
//
// # How to play all of them on an engine
//
//	all, err := transcript.Load("../testdata/transcripts")
//	for _, tr := range all {
//		t.Run(tr.Name, func(t *testing.T) {
//			if !tr.Plays("redstalk") {
//				t.Skip("not for redstalk")
//			}
//			err := transcript.PlayInTime(ctx, tr, func() (transcript.Target, func(), error) {
//				srv := startFreshServer(t, tr.Flags()) // an empty store each time
//				return transcript.Target{
//					Kind:   "redstalk",
//					Dial:   srv.Dial,
//					Signal: func(os.Signal) error { srv.Drain(); return nil },
//				}, srv.Stop, nil
//			})
//			if err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// The player reads the clock with package time, and every goroutine it starts
// has ended when Play returns, so it can run inside a testing/synctest bubble
// if Dial delivers in-memory connections. Those need a buffer (a reply must
// not wait for its reader) and, for half-close, a CloseWrite method.
package transcript
