package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", ArgsUsage: "[FILE]", Action: withConn(arguments{0, 1}, importJobs),
		Usage: "put jobs from the output of export, read from a file or standard input",
		Description: "Jobs get new ids. Delayed jobs keep their due time; if it has passed they are ready at once. Reserved ones become ready. Buried ones are put with a " +
			"long delay, reserved and buried, so that no worker can reserve them meanwhile; so are those with a checkpoint, which is saved then. All keep the reason of the last failure, and when it was. Batches begin anew, without what was done before, and open: " +
			"seal them with redstalk batch seal. Lines are checked one by one as they are read: import stops at the " +
			"first bad one, and reports how many lines were put; --skip continues from there.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE` for all jobs, instead of their own"},
			&cli.IntFlag{Name: "skip", Usage: "`N`: skip the first N lines"},
			&cli.BoolFlag{Name: "drop-tags", Usage: "drop all tags, such as key, retry and meta, if the server has no put-tags; the group and the batches, if it has none"},
		},
	}
}

// importer is one run of import.
type importer struct {
	*task
	groups, batches bool // the server has groups, batches,
	tags            bool // put-tags,
	copies          bool // and those of copies
	checkpoints     bool // jobs have checkpoints
	lines           int  // lines read
	less            int  // jobs without tags that they had
	letters         int  // dead letters, which are ordinary jobs now
	put             int
	bar             *progress
}

func importJobs(t *task) error {
	in, size, err := openInput(t)
	if err != nil {
		return err
	}
	defer in.Close()
	m := &importer{task: t}
	if m.tags, err = t.supports("put-tags"); err != nil {
		return err
	}
	if m.copies, err = t.supports("restore"); err != nil {
		return err
	}
	if m.groups, err = t.supports("groups"); err != nil {
		return err
	}
	if m.batches, err = t.supports("batches"); err != nil {
		return err
	}
	if m.checkpoints, err = t.supports("checkpoint"); err != nil {
		return err
	}
	m.bar = startNotes(t, "importing", size, func() string { return nounFor(m.put, "job") })
	ctx, stop := context.WithCancel(t.Context.Context)
	defer stop()
	err = m.all(ctx, startLines(ctx, in))
	m.bar.end()
	if err != nil {
		return fmt.Errorf("%w (continue with --skip %d)", err, m.put)
	}
	if t.Context.Context.Err() != nil {
		return interrupted(fmt.Sprintf("continue with --skip %d", m.put))
	}
	t.infof("redstalk: %s imported", nounFor(m.put-min(m.put, t.Int("skip")), "job"))
	if m.letters > 0 {
		t.infof("redstalk: %s became ordinary: replay cannot send such a job back", nounFor(m.letters, "dead letter"))
	}
	if m.less > 0 {
		t.infof("redstalk: %s without tags, which this server does not support", nounFor(m.less, "job"))
	}
	return nil
}

// openInput opens the file, or standard input. The size is in bytes, 0 if it is unknown.
func openInput(t *task) (io.ReadCloser, uint64, error) {
	path := t.Args().First()
	if path == "" || path == "-" {
		return io.NopCloser(t.in), 0, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fileError("the jobs from", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fileError("the jobs from", path, err)
	}
	return file, uint64(info.Size()), nil
}

func (m *importer) all(ctx context.Context, in *lines) error {
	for {
		some, more := in.next(ctx)
		if err := m.importLines(some); err != nil {
			return err
		}
		if !more {
			if in.err != nil && ctx.Err() == nil {
				return fmt.Errorf("reading line %d: %w", m.lines+1, in.err)
			}
			return nil
		}
	}
}

// importLines puts the jobs of some lines. If a line is bad, the lines before it are put.
func (m *importer) importLines(some [][]byte) error {
	jobs := make([]*entry, 0, len(some))
	var bad error
	size := uint64(0)
	for _, line := range some {
		m.lines++
		size += uint64(len(line)) + 1
		e := &entry{}
		if m.lines > m.Int("skip") && len(bytes.TrimSpace(line)) > 0 {
			if e, bad = m.read(line); bad != nil {
				bad = fmt.Errorf("line %d: %w", m.lines, bad)
				break
			}
		}
		jobs = append(jobs, e)
	}
	for from := 0; from < len(jobs); {
		to := sameTube(jobs, from)
		if err := m.putAll(jobs[from:to]); err != nil {
			return err
		}
		from = to
	}
	m.bar.add(size)
	return bad
}

// entry is a line of the input. Its job is nil if the line is skipped or empty.
type entry struct {
	*job
	bytes []byte // body
	tags  []string
}

// sameTube returns the index of the first job after from that is of another tube.
func sameTube(jobs []*entry, from int) int {
	for to := from; to < len(jobs); to++ {
		if jobs[to].job != nil && jobs[from].job == nil || jobs[to].job != nil && jobs[to].Tube != jobs[from].Tube {
			return max(to, from+1)
		}
	}
	return len(jobs)
}

func (m *importer) read(line []byte) (*entry, error) {
	j := &job{Priority: 1024, TTR: 60}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(j); err != nil {
		return nil, err
	}
	if tube := m.tube(); tube != "" {
		j.Tube = tube
	}
	if err := checkWord("tube", j.Tube); err != nil {
		return nil, err
	}
	body, err := j.body()
	if err != nil {
		return nil, err
	}
	if j.State != "" && !slices.Contains(states, j.State) {
		return nil, fmt.Errorf("state is %q, not one of %s", j.State, strings.Join(states, ", "))
	}
	if j.At > maxDueTime.UnixMilli() {
		return nil, fmt.Errorf("at is %d, and the latest due time is %d", j.At, maxDueTime.UnixMilli())
	}
	if m.tags && m.Bool("drop-tags") && m.lacks(j) {
		if !m.groups {
			j.Group = ""
		}
		if !m.batches {
			j.Batch, j.After, j.AfterAll = "", "", ""
		}
		m.less++
	}
	tags, err := j.tags()
	if err != nil {
		return nil, err
	}
	if len(tags) > 0 && (!m.tags || m.lacks(j)) {
		if !m.Bool("drop-tags") {
			return nil, failure{exitExtension, fmt.Errorf("the job has %s, which this server does not support: use --drop-tags to drop them", strings.Join(tags, " "))}
		}
		tags = nil
		m.less++
	}
	if len(j.Checkpoint) > protocol.MaxCheckpoint {
		return nil, fmt.Errorf("checkpoint has %d bytes, and the most is %d", len(j.Checkpoint), protocol.MaxCheckpoint)
	}
	if !m.checkpoints || j.waitsForBatch() {
		j.Checkpoint = nil
	}
	if m.copies && protocol.ValidReason(j.Reason) {
		tags = append(tags, reasonTags(j.Reason, j.Failed)...)
	}
	if j.At > 0 && j.State == "delayed" && m.tags && !j.waitsForBatch() && len(j.Checkpoint) == 0 {
		tags = append(tags, fmt.Sprintf("at:%d", j.At))
	}
	return &entry{j, body, tags}, nil
}

// lacks reports whether the server has no groups or batches, and the job needs them.
func (m *importer) lacks(j *job) bool {
	return !m.groups && j.Group != "" || !m.batches && j.Batch+j.After+j.AfterAll != ""
}

// reasonTags returns the tags of a put that say why the job it copies has failed, and when, in ms
// since 1970.
func reasonTags(reason string, failed int64) (tags []string) {
	tags = append(tags, "reason:"+protocol.Quote(reason))
	if failed > 0 {
		tags = append(tags, fmt.Sprint("failed-at:", failed))
	}
	return tags
}

// untilHeld is the delay of a job that is reserved as soon as it is put, to be buried or to get its checkpoint.
const untilHeld = time.Hour

// isHeld reports whether the job is reserved as soon as it is put.
func (e *entry) isHeld() bool { return e.State == "buried" || len(e.Checkpoint) > 0 }

func (e *entry) appendPut(out []byte, now time.Time) []byte {
	delay := time.Duration(0)
	switch {
	case e.waitsForBatch():
		delay = time.Duration(e.Delay) * time.Second
	case e.isHeld():
		delay = untilHeld
	case e.State == "delayed":
		delay = delayAt(e.At, now)
	}
	return appendPut(out, e.Priority, delay, int64(e.TTR), e.bytes, e.tags)
}

// putAll puts jobs of one tube, then buries those with the state buried, and gives others their checkpoints.
func (m *importer) putAll(jobs []*entry) error {
	if jobs[0].job == nil {
		m.put += len(jobs)
		return nil
	}
	if err := m.use(jobs[0].Tube); err != nil {
		return err
	}
	now, held, first := time.Now(), []*entry{}, m.put
	real := jobs[:0:0]
	for _, e := range jobs {
		if e.job != nil {
			real = append(real, e)
		}
	}
	err := m.pipeline("importing jobs", len(real), func(out []byte, i int) []byte { return real[i].appendPut(out, now) }, func(i int, r *client.Reply) error {
		if r.Word != client.Inserted {
			return m.tooBig(replyError(fmt.Sprintf("importing job %d of tube %s", real[i].ID, real[i].Tube), r), r)
		}
		if real[i].FromTube != "" && real[i].FromTube != real[i].Tube {
			m.letters++
		}
		if m.put++; len(r.Rest) > 0 {
			m.infof("redstalk: tube %[2]s already has a job with the key %[1]s; it was not changed", real[i].Key, real[i].Tube)
		} else if real[i].isHeld() {
			real[i].ID = r.ID
			held = append(held, real[i])
		}
		return nil
	})
	if holdErr := m.hold(held, now); err == nil {
		err = holdErr
	}
	if err == nil {
		m.put = first + len(jobs)
	}
	return err
}

// keptReason returns the reason with which a job is buried, "" if it has been put with it, or the
// server does not know reasons.
func (m *importer) keptReason(j *job) string {
	if m.copies {
		return ""
	}
	if has, err := m.supports("reason"); err != nil || !has || !protocol.ValidReason(j.Reason) {
		return ""
	}
	return j.Reason
}

// hold reserves jobs by their new ids, gives them their checkpoints, and buries them or puts them back.
func (m *importer) hold(jobs []*entry, now time.Time) error {
	type step struct {
		of      *entry
		command []byte
		want    string // the reply; "": any
	}
	var steps []step
	for _, e := range jobs {
		steps = append(steps, step{e, client.AppendReserveJob(nil, e.ID), ""})
		if n := len(e.Checkpoint); n > 0 {
			steps = append(steps, step{e, fmt.Appendf(nil, "checkpoint %d %d\r\n%s\r\n", e.ID, n, e.Checkpoint), "SAVED"})
		}
		if e.State == "buried" {
			steps = append(steps, step{e, fmt.Appendf(nil, "bury %d %d%s\r\n", e.ID, e.Priority, reasonWord(m.keptReason(e.job))), "BURIED"})
			continue
		}
		delay := time.Duration(0)
		if e.State == "delayed" {
			delay = delayAt(e.At, now)
		}
		steps = append(steps, step{e, fmt.Appendf(nil, "release %d %d %d failure:no\r\n", e.ID, e.Priority, wholeSeconds(delay)), "RELEASED"})
	}
	return m.pipeline("importing jobs", len(steps), func(out []byte, i int) []byte { return append(out, steps[i].command...) }, func(i int, r *client.Reply) error {
		if s := steps[i]; s.want != "" && string(r.Line) != s.want {
			return replyError(fmt.Sprintf("importing job %d, which is delayed now", s.of.ID), r)
		}
		return nil
	})
}
