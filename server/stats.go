package server

import (
	"slices"
	"strconv"
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Stats:     {planStats, answerStats},
		protocol.StatsJob:  {planStatsJob, answerStatsJob},
		protocol.StatsTube: {planStatsTube, answerStatsTube},
	})
}

// beanstalkdVersion is the version in stats: that of the beanstalkd which redstalk is compatible
// with. It must be a plain number, since clients compare it.
const beanstalkdVersion = "1.13"

func planStats(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Stats})
}

// answerStats writes the page of stats: beanstalkd's keys in its order, then the number of instances,
// if there can be several, the version of this program, and the records of ended jobs, if there are any.
func answerStats(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	v, quote := s.queue.StatsWith(a.Stats), s.server.config.QuoteStats
	p.Uint("current-jobs-urgent", v.Urgent)
	p.Uint("current-jobs-ready", v.Ready)
	p.Uint("current-jobs-reserved", v.Reserved)
	p.Uint("current-jobs-delayed", v.Delayed)
	p.Uint("current-jobs-buried", v.Buried)
	for _, verb := range protocol.StatVerbs() {
		p.Uint(verb.Counter(), v.Commands[verb])
	}
	p.Uint("job-timeouts", v.Timeouts)
	p.Uint("total-jobs", v.Jobs)
	p.Uint("max-job-size", uint64(v.MaxJobSize))
	p.Uint("current-tubes", v.Tubes)
	p.Int("current-connections", v.Connections)
	p.Int("current-producers", v.Producers)
	p.Int("current-workers", v.Workers)
	p.Int("current-waiting", v.Waiting)
	p.Uint("total-connections", v.TotalConnections)
	addProcess(&p, &v.Process)
	p.Uint("binlog-oldest-index", v.Log.OldestIndex)
	p.Uint("binlog-current-index", v.Log.CurrentIndex)
	p.Uint("binlog-records-migrated", v.Log.RecordsMigrated)
	p.Uint("binlog-records-written", v.Log.RecordsWritten)
	p.Uint("binlog-max-size", v.Log.MaxSize)
	p.Bool("draining", v.Draining)
	p.Bare("id", v.ID)
	addText(&p, quote, "hostname", v.Machine.Hostname)
	p.Quoted("os", v.Machine.OS)
	addText(&p, quote, "platform", v.Machine.Platform)
	if v.Instances > 0 {
		p.Uint("redstalk-instances", v.Instances)
	}
	if v.Version != "" {
		addText(&p, quote, "redstalk-version", v.Version)
		p.Quoted("redstalk-time-zones", schedule.ZoneDatabase())
	}
	if v.Ended > 0 {
		p.Uint("redstalk-ended-records", v.Ended)
		p.Uint("redstalk-ended-bytes", v.EndedBytes)
	}
	if v.OnDisk > 0 {
		p.Uint("redstalk-jobs-on-disk", v.OnDisk)
	}
	if v.Log.Refusing != "" {
		p.Quoted("redstalk-puts-refused", v.Log.Refusing)
	}
	s.out.OK(p.Bytes())
}

// addProcess adds the lines of stats about the process.
func addProcess(p *protocol.Page, v *queue.Process) {
	p.Int("pid", int64(v.PID))
	p.Quoted("version", beanstalkdVersion)
	addSeconds(p, "rusage-utime", v.UserTime)
	addSeconds(p, "rusage-stime", v.SystemTime)
	p.Int("uptime", int64(v.Uptime/time.Second))
}

func addSeconds(p *protocol.Page, key string, d time.Duration) {
	p.Seconds(key, int64(d/time.Second), int64(d%time.Second/time.Microsecond))
}

// addText adds a string that beanstalkd 1.12 prints bare and 1.13 in quotes.
func addText(p *protocol.Page, quote bool, key, value string) {
	if quote {
		p.Quoted(key, value)
	} else {
		p.Bare(key, value)
	}
}

func planStatsJob(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.JobStats, ID: c.ID})
}

func answerStatsJob(s *session, r *request, a *storage.Answer) {
	var p protocol.Page
	j := s.sight(a.Job.Tube).Job(a.Job)
	p.Uint("id", j.ID)
	addText(&p, s.server.config.QuoteStats, "tube", j.Tube)
	p.Bare("state", j.State.String())
	p.Uint("pri", uint64(j.Pri))
	p.Int("age", int64(j.Age/time.Second))
	p.Uint("delay", uint64(j.Delay))
	p.Uint("ttr", uint64(j.TTR))
	p.Int("time-left", int64(j.TimeLeft/time.Second))
	p.Int("file", int64(j.File))
	for c, key := range [tube.NumCounters]string{"reserves", "timeouts", "releases", "buries", "kicks"} {
		p.Uint(key, uint64(j.Counters[c]))
	}
	if j.Metadata != nil {
		addMetadata(&p, j)
	}
	if j.Held != tube.NotHeld {
		p.Bare("held", j.Held.String())
	}
	if name := s.holderName(r, j); name != "" {
		p.Quoted("holder", name)
	}
	s.out.OK(p.Bytes())
}

// holderName returns the name of the connection that holds a job. It is "" if the connection has none:
// clients that use no names get beanstalkd's page.
func (s *session) holderName(r *request, j *tube.JobStats) string {
	if r.ask != nil {
		return r.ask.holder
	}
	name, _ := s.queue.NameOfHolder(j)
	return name
}

// addMetadata adds the lines of stats-job that only a job with metadata has: one that was put with
// tags, or came by its metadata in another way.
func addMetadata(p *protocol.Page, j *tube.JobStats) {
	m := j.Metadata
	p.Quoted("key", m.Key)
	if m.Group != "" {
		p.Quoted("group", m.Group)
	}
	if o := m.Occurrence; o != nil {
		p.Bare("schedule", o.Schedule)
		p.Int("nominal-ms", msOf(o.Nominal))
	}
	if m.Batch != "" {
		p.Quoted("batch", m.Batch)
	}
	if m.After != "" {
		p.Quoted(afterWord(m), m.After)
	}
	p.Word("retry", field.RetryText(j.Rules.Retry, j.Rules.Doubled))
	if percent := j.Rules.Percent(); percent > 0 || j.Rules.Jitter != tube.NoJitter {
		p.Uint("jitter", uint64(percent))
	}
	p.Uint("failures", uint64(m.Failures(&j.Counters)))
	p.Uint("max", uint64(j.Rules.Max))
	p.Uint("deliveries", uint64(m.Deliveries(&j.Counters)))
	p.Word("dead", j.Rules.Dead)
	p.Word("parked", m.Parked.String())
	p.Int("due-ms", int64(j.TimeLeft/time.Millisecond))
	if m.Expires != 0 {
		p.Int("expires-ms", j.ExpiresIn().Milliseconds())
		p.Bare("on-expire", field.OnExpireWords[max(j.Rules.OnExpire, tube.ExpireDelete)])
	}
	for _, f := range field.OfRules {
		if f.In != 0 && !slices.Contains(rulesAbove, f.Name) && f.IsSet(&j.Rules) {
			p.Bare(f.Name, f.Format(&j.Rules))
		}
	}
	if m.FromTube != "" {
		p.Bare("from-tube", m.FromTube)
		p.Uint("from-id", m.FromID)
	}
	if j.Leased {
		p.Bare("lease", "yes")
	}
	addReports(p, m)
	addNotes(p, m.AllNotes())
}

// addReports adds what the worker of a job reports of it.
func addReports(p recordPage, m *tube.Metadata) {
	addNamed(p, "progress", m.Progress)
	if size := m.CheckpointSize(); size > 0 {
		p.Int("checkpoint-bytes", int64(size))
	}
}

// rulesAbove are the rules that have lines of their own. That of a key is over when its job is: no line shows it.
var rulesAbove = []string{"retry", "jitter", "max", "dead", "on-expire", "key-ttl"}

// afterWord returns the tag that made a job an after-job.
func afterWord(m *tube.Metadata) string {
	if m.AfterAll {
		return "after-all"
	}
	return "after"
}

// addNotes adds the lines of stats-job for what a job has of meta, trace, reason, attempts and first put.
func addNotes(p *protocol.Page, n *tube.Notes) {
	if n.Meta != nil {
		p.Map("meta", metaLine(n.Meta))
	}
	if n.Trace != "" {
		p.Bare("trace", n.Trace)
	}
	if n.Reason != "" {
		p.Quoted("reason", n.Reason)
		p.Int("failed-ms", failedMs(n))
	}
	for i := range n.Attempts {
		p.Map("attempt-"+strconv.Itoa(i+1), attemptLine(&n.Attempts[i]))
	}
	if n.FirstPut != 0 {
		p.Int("first-put-ms", msOf(n.FirstPut))
	}
}

// attemptLine returns the line about an attempt.
func attemptLine(a *tube.Attempt) *protocol.FlowMap {
	line := new(protocol.FlowMap)
	line.Int("ended-ms", msOf(a.At))
	line.Bare("how", a.How.String())
	addNamed(line, "holder", a.Holder)
	addNamed(line, "reason", a.Reason)
	return line
}

// metaLine returns the line about the meta of a job.
func metaLine(all []tube.Meta) *protocol.FlowMap {
	line := new(protocol.FlowMap)
	for _, m := range all {
		line.Quoted(m.Name, m.Value)
	}
	return line
}

// failedMs returns when the reason of a job was said, in milliseconds since the Unix epoch.
func failedMs(n *tube.Notes) int64 { return int64(n.FailedAt) / int64(time.Millisecond) }

func planStatsTube(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.TubeStats, Tube: string(c.Name)})
}

func answerStatsTube(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	t := s.queue.TubeStatsWith(a.TubeStats)
	addText(&p, s.server.config.QuoteStats, "name", t.Name)
	p.Uint("current-jobs-urgent", t.Urgent)
	p.Uint("current-jobs-ready", t.Ready)
	p.Uint("current-jobs-reserved", t.Reserved)
	p.Uint("current-jobs-delayed", t.Delayed)
	p.Uint("current-jobs-buried", t.Buried)
	p.Uint("total-jobs", t.Total)
	p.Uint("current-using", t.Using)
	p.Uint("current-watching", t.Watching)
	p.Uint("current-waiting", t.Waiting)
	p.Uint("cmd-delete", t.Deletes)
	p.Uint("cmd-pause-tube", t.Pauses)
	p.Uint("pause", uint64(t.Pause))
	p.Int("pause-time-left", int64(t.PauseLeft/time.Second))
	if t.HasPolicy {
		p.Int("oldest-ready", int64(t.OldestReady/time.Second))
		p.Map("waits", timesMap(&t.Waits))
		p.Map("runs", timesMap(&t.Runs))
	}
	if t.Expired > 0 {
		p.Uint("expired", t.Expired)
	}
	s.out.OK(p.Bytes())
}

// timesLabels are the upper bounds of the buckets of tube.Times, in the format of durations in tags.
// The last bucket has no bound.
var timesLabels = func() (labels []string) {
	for _, d := range tube.TimesBounds() {
		labels = append(labels, field.Durations(d))
	}
	return append(labels, "more")
}()

// timesMap writes a histogram: the count, the sum in milliseconds, and the count of each bucket.
func timesMap(t *tube.Times) *protocol.FlowMap {
	m := new(protocol.FlowMap)
	m.Uint("count", t.Count())
	m.Int("sum-ms", t.Sum.Milliseconds())
	for i, label := range timesLabels {
		m.Uint(label, t.Counts[i])
	}
	return m
}
