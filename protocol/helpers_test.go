package protocol

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"redstalk/tube/field"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// show formats a command as in the tables of these tests: the verb and its fields, or
// the verb and its fault.
func show(c *Command) string {
	if c.Fault != NoFault {
		s := c.Verb.String() + " " + c.Fault.String()
		if c.Counted {
			s += " counted"
		}
		if c.Producer {
			s += " producer"
		}
		return s
	}
	if !c.Counted || c.Producer != (c.Verb == Put) || (c.Body != nil) != c.Verb.Spec().Body {
		return fmt.Sprintf("inconsistent: %+v", *c)
	}
	switch c.Verb {
	case Put:
		return fmt.Sprintf("put %d %d %d %s%s", c.Pri, c.Delay, c.TTR, showBody(c.Body), showTags(c.Tags))
	case Release:
		return fmt.Sprintf("release %d %d %d%s", c.ID, c.Pri, c.Delay, showTags(c.Tags))
	case Bury:
		return fmt.Sprintf("bury %d %d%s", c.ID, c.Pri, showTags(c.Tags))
	case Kick:
		return fmt.Sprint("kick ", c.MaxJobs, wordIf(c.KeepCheckpoint, " keep-checkpoint"))
	case ReserveWithTimeout:
		return fmt.Sprintf("reserve-with-timeout %d", c.Timeout)
	case Reschedule:
		return fmt.Sprint("reschedule ", c.ID, " ", c.In)
	case SetPriority:
		return fmt.Sprint("set-priority ", c.ID, " ", c.Pri)
	case ReserveBatch:
		return fmt.Sprint("reserve-batch ", []uint32{c.MaxJobs, c.Timeout}, wordIf(c.ByLease, " lease"), wordIf(c.Info, " info"))
	case DeleteBatch:
		return fmt.Sprint("delete-batch ", slices.Collect(IDs(c.List)))
	case PauseTube:
		return fmt.Sprintf("pause-tube %s %d", c.Name, c.Delay)
	case Watch:
		if c.Weight > 0 {
			return fmt.Sprintf("watch %s %d", c.Name, c.Weight)
		}
		return fmt.Sprintf("watch %s", c.Name)
	case Use, Ignore, StatsTube, GetPolicy, NameClient:
		return fmt.Sprintf("%v %s", c.Verb, c.Name)
	case Peek, ReserveJob, Delete, KickJob, ReplayJob, TakeBack, Touch, GetCheckpoint, StatsJob, StatsEnded:
		return fmt.Sprint(c.Verb, " ", c.ID, wordIf(c.KeepCheckpoint, " keep-checkpoint"), showTags(c.Tags))
	}
	return showExtension(c)
}

// showResults is show for commands about results.
func showResults(c *Command, s string) string {
	switch c.Verb {
	case Finish, Checkpoint:
		return fmt.Sprintf("%s %d %s", s, c.ID, showBody(c.Body))
	case FinishLease, CheckpointLease:
		return fmt.Sprintf("%s %d %d %s", s, c.ID, c.Lease, showBody(c.Body))
	case WaitJob:
		return fmt.Sprintf("%s %d %d", s, c.ID, c.Timeout)
	}
	of := string(c.Name)
	if c.Name == nil {
		of = "batch:" + c.Key
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s %d %s", s, of, c.MaxJobs, c.Cursor), " ")
}

// showExtension is show for extensions, and for words without arguments.
func showExtension(c *Command) string {
	s := c.Verb.String()
	switch c.Verb {
	case ReserveLease:
		return fmt.Sprint(s, " ", c.Timeout, wordIf(c.Info, " info"))
	case DeleteLease, TouchLease:
		return fmt.Sprint(s, " ", c.ID, " ", c.Lease, showTags(c.Tags))
	case ReleaseLease:
		return fmt.Sprint(s, " ", c.ID, " ", c.Lease, " ", c.Pri, " ", c.Delay, showTags(c.Tags))
	case BuryLease:
		return fmt.Sprint(s, " ", c.ID, " ", c.Lease, " ", c.Pri, showTags(c.Tags))
	case ListJobs:
		return strings.TrimSuffix(fmt.Sprintf("%s %s %v %d %s", s, c.Name, c.State, c.MaxJobs, c.Cursor), " ")
	case ListClients:
		return strings.TrimSuffix(fmt.Sprintf("%s %d %s", s, c.MaxJobs, c.Cursor), " ")
	case CloseClient:
		return strings.TrimSuffix(fmt.Sprintf("%s %d %s", s, c.ID, c.To), " ")
	case Find, DeleteKey:
		return fmt.Sprintf("%s %s %s", s, c.Name, c.Key)
	case FlushTube:
		return strings.TrimSuffix(fmt.Sprintf("%s %s %v", s, c.Name, c.State), " ")
	case MoveJobs:
		return fmt.Sprintf("%s %s %v %s %d", s, c.Name, c.State, c.To, c.MaxJobs)
	case SetPolicy:
		return fmt.Sprintf("%s %s%s", s, c.Name, showTags(c.Tags))
	case ListGroups:
		return strings.TrimSuffix(fmt.Sprintf("%s %s %d %s", s, c.Name, c.MaxJobs, c.Cursor), " ")
	case SetGroup, GetGroup, StatsGroup, FlushGroup:
		return fmt.Sprintf("%s %s %q%s", s, c.Name, c.Key, showTags(c.Tags))
	case PauseGroup:
		return fmt.Sprintf("%s %s %q %d", s, c.Name, c.Key, c.Delay)
	case SetSchedule:
		return fmt.Sprintf("%s %s %s %d %d %s%s", s, c.Key, c.Name, c.Pri, c.TTR, showBody(c.Body), showTags(c.Tags))
	case GetSchedule, DeleteSchedule, PauseSchedule, ResumeSchedule, RunSchedule, SealBatch, StatsBatch, CancelBatch:
		return fmt.Sprintf("%s %s", s, c.Key)
	case Finish, FinishLease, Checkpoint, CheckpointLease, WaitJob, ListEnded:
		return showResults(c, s)
	case ListMembers:
		return strings.TrimSuffix(fmt.Sprintf("%s %s %d %s", s, c.Key, c.MaxJobs, c.Cursor), " ")
	case History, HistoryTube:
		period := "hours"
		if c.Days {
			period = "days"
		}
		return fmt.Sprintf("%s %s %d", strings.TrimSuffix(fmt.Sprintf("%s %s", s, c.Name), " "), period, c.MaxJobs)
	case ListSchedules, ListBatches:
		return strings.TrimSuffix(fmt.Sprintf("%s %d %s", s, c.MaxJobs, c.Cursor), " ")
	case PreviewSchedule:
		return fmt.Sprintf("%s %s %d%s", s, c.Key, c.MaxJobs, showTags(c.Tags))
	case Auth:
		return fmt.Sprintf("%s %s %q", s, c.Name, c.Secret)
	}
	return s
}

// wordIf returns the word if ok.
func wordIf(ok bool, word string) string {
	if ok {
		return word
	}
	return ""
}

// showBody formats a body; of a large one, its beginning, length and checksum.
func showBody(body []byte) string {
	if len(body) <= 300 {
		return strconv.Quote(string(body))
	}
	return fmt.Sprintf("%q and so on: %d bytes, %x", body[:20], len(body), crc32.ChecksumIEEE(body))
}

// showTags formats all tags of a line, "" if there are none.
func showTags(t *Tags) (s string) {
	if t == nil {
		return ""
	}
	for _, one := range []struct {
		name  string
		said  bool
		value any
	}{
		{"delay", t.HasDelay, t.Delay}, {"at", t.HasAt, t.At}, {"key", t.Key != "", t.Key},
		{"on-duplicate", t.OnDuplicate != field.NotSaid, field.OnDuplicateWords[t.OnDuplicate]}, {"key-ttl", t.HasKeyTTL, t.KeyTTL},
		{"retry", t.Retry != nil, t.Retry}, {"max", t.Max != 0, t.Max}, {"dead", t.Dead != "", t.Dead},
		{"trace", t.Trace != "", t.Trace},
		{"expire-at", t.ExpireAt != 0, t.ExpireAt}, {"failed-at", t.FailedAt != 0, t.FailedAt}, {"reason", t.Reason != "", t.Reason}, {"failure", t.NoFailure, "no"},
		{"quota-jobs", t.HasQuotaJobs, t.QuotaJobs}, {"quota-bytes", t.HasQuotaBytes, t.QuotaBytes},
		{"push", t.Push.URL != "", t.Push.URL}, {"push-concurrency", t.Push.Concurrency != 0, t.Push.Concurrency},
		{"push-timeout", t.Push.Timeout != 0, t.Push.Timeout}, {"push-rate", t.Push.Rate != 0, field.RateText(t.Push.Rate, t.Push.RateEvery)},
		{"group", t.Group != "", t.Group}, {"group-concurrency", t.GroupLimits.Concurrency != 0, t.GroupLimits.Concurrency},
		{"group-rate", t.GroupLimits.Rates != (field.Rates{}), t.GroupLimits.Rates}, {"group-order", t.GroupOrder != field.NoGroupOrder, field.GroupOrderWords[t.GroupOrder]},
		{"concurrency", t.Limits.Concurrency != 0, t.Limits.Concurrency}, {"rate", t.Limits.Rates != (field.Rates{}), t.Limits.Rates},
		{"weight", t.Weight != 0, t.Weight}, {"ttl", t.HasTTL, t.TTL},
		{"batch", t.Batch.Name != "", t.Batch.Name}, {"batch-ttl", t.Batch.TTL != 0, t.Batch.TTL},
		{"after", t.Batch.After != "", t.Batch.After}, {"after-all", t.Batch.AfterAll != "", t.Batch.AfterAll},
	} {
		if one.said {
			s += fmt.Sprint(" ", one.name, "=", one.value)
		}
	}
	if sc := t.Schedule; sc != nil {
		for _, one := range []struct {
			name  string
			said  bool
			value any
		}{
			{"cron", sc.Cron != "", strconv.Quote(sc.Cron)}, {"every", sc.Every != 0, sc.Every}, {"tz", sc.Zone != "", sc.Zone}, {"overlap", sc.Overlap != 0, sc.Overlap},
			{"catch-up", sc.HasCatchUp, sc.CatchUp}, {"catch-up-all", sc.CatchUpAll != 0, sc.CatchUpAll}, {"from", sc.From != 0, sc.From}, {"until", sc.Until != 0, sc.Until},
		} {
			if one.said {
				s += fmt.Sprint(" ", one.name, "=", one.value)
			}
		}
	}
	if t.Progress != nil {
		s += fmt.Sprintf(" progress=%q", *t.Progress)
	}
	if t.Meta != nil {
		var metas []string
		for _, m := range t.Meta {
			metas = append(metas, m.Name+"="+m.Value)
		}
		s += fmt.Sprintf(" meta=%q", metas)
	}
	return s
}

// pieces is a source that returns its data in pieces of the lengths that cut returns, then
// io.EOF.
type pieces struct {
	data string
	cut  func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.data == "" {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(max(p.cut(), 1), len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// vecPieces is pieces that can fill several slices with one call.
type vecPieces struct{ pieces }

func (p *vecPieces) ReadVec(to [][]byte) (int, error) {
	if p.data == "" {
		return 0, io.EOF
	}
	n, piece := 0, p.data[:min(max(p.cut(), 1), len(p.data))]
	for _, b := range to {
		n += copy(b, piece[n:])
	}
	p.data = p.data[n:]
	return n, nil
}

// lender gives dirty memory to a Reader, and counts the Buffers that are not released. Released
// memory is overwritten at once.
type lender struct {
	t          testing.TB
	unreleased int
}

func (l *lender) get(size int) Buffer {
	if size == 0 {
		return nil
	}
	l.unreleased++
	return &lentBuffer{l, bytes.Repeat([]byte{0xDB}, size), false}
}

type lentBuffer struct {
	l        *lender
	memory   []byte
	released bool
}

func (b *lentBuffer) Bytes() []byte { return b.memory }

func (b *lentBuffer) Release() {
	if b.released {
		b.l.t.Error("a Buffer was released twice")
	}
	b.released = true
	b.l.unreleased--
	for i := range b.memory {
		b.memory[i] = 0xDB
	}
}

func whole() int   { return 1 << 30 }
func oneByte() int { return 1 }

// randomly cuts into pieces that are mostly small, sometimes large.
func randomly(seed uint64) func() int {
	rnd := rand.New(rand.NewPCG(seed, seed))
	return func() int { return 1 << rnd.IntN(13) >> rnd.IntN(8) }
}

// commands reads all commands, from sources of both kinds, and with memory of the Reader and
// of a lender. That must make no difference. It checks the limits of the Reader's memory.
func commands(t testing.TB, input string, maxBody int, cut func() int) (got []string, r *Reader) {
	t.Helper()
	got, r = commandsFrom(t, input, &pieces{input, cut}, maxBody, nil)
	for name, src := range map[string]io.Reader{"Read": &pieces{input, cut}, "ReadVec": &vecPieces{pieces{input, cut}}} {
		l := &lender{t: t}
		lent, r := commandsFrom(t, input, src, maxBody, l)
		if r.Close(); l.unreleased != 0 {
			t.Errorf("%s: %d Buffers were not released after %.80q", name, l.unreleased, input)
		}
		if g, w := strings.Join(lent, "\n"), strings.Join(got, "\n"); g != w {
			t.Errorf("%.80q, %s with Buffers:\n got  %.200q\n want %.200q", input, name, g, w)
		}
	}
	return got, r
}

// commandsFrom reads all commands of src, which returns input. It uses the memory of l, unless
// that is nil, and releases a body when the next command is read.
func commandsFrom(t testing.TB, input string, src io.Reader, maxBody int, l *lender) (got []string, r *Reader) {
	t.Helper()
	r = NewReader(src, maxBody)
	if l != nil {
		r.UseBuffers(l.get)
	}
	var c Command
	for {
		for r.Next(&c) {
			got = append(got, show(&c))
			if c.Buffer != nil {
				c.Buffer.Release()
			}
			if len(got) > len(input) {
				t.Fatalf("more commands than bytes from %q", input)
			}
		}
		if r.state == inLine && r.Buffered() >= r.longest(r.buf[r.lo:r.hi]) {
			t.Fatalf("%d bytes left in line state", r.Buffered())
		}
		if len(r.buf) > maxBuffer || cap(r.body) > max(maxBuffer, 2*len(input)) {
			t.Fatalf("buffer %d, body %d bytes for input of %d", len(r.buf), cap(r.body), len(input))
		}
		if err := r.Fill(); err == io.EOF {
			return got, r
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// check runs input through the Reader in many splits, a long one in fewer.
func check(t *testing.T, input string, maxBody int, want ...string) {
	t.Helper()
	cuts := map[string]func() int{"whole": whole}
	splits := uint64(4)
	if len(input) <= 4*minBuffer {
		cuts["byte by byte"], splits = oneByte, 20
	}
	for seed := range splits {
		cuts[fmt.Sprint("split ", seed)] = randomly(seed)
	}
	for name, cut := range cuts {
		got, _ := commands(t, input, maxBody, cut)
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("%.80q, %s:\n got  %.200q\n want %.200q", input, name, g, w)
			return
		}
	}
}
