package server

import (
	"os"
	"syscall"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// beanstalkdVersion is the version of stats: that of the beanstalkd whose
// behaviour clients get. It must be a plain number, as clients compare it.
const beanstalkdVersion = "1.13"

// answerStats writes the page of stats: beanstalkd's keys in its order, and
// behind them how many instances there are, if there may be several, and the
// version of this program.
func answerStats(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	v, t := s.server, &a.Stats.Totals
	p.Uint("current-jobs-urgent", t.Urgent)
	p.Uint("current-jobs-ready", t.Ready)
	p.Uint("current-jobs-reserved", t.Reserved)
	p.Uint("current-jobs-delayed", t.Delayed)
	p.Uint("current-jobs-buried", t.Buried)
	for _, verb := range protocol.StatVerbs() {
		p.Uint(verb.Counter(), v.figures.commands[verb].Load())
	}
	p.Uint("job-timeouts", t.Timeouts)
	p.Uint("total-jobs", t.Jobs)
	p.Uint("max-job-size", uint64(v.config.MaxJobSize))
	p.Uint("current-tubes", t.Tubes)
	p.Int("current-connections", v.figures.connections.Load())
	p.Int("current-producers", v.figures.producers.Load())
	p.Int("current-workers", v.figures.workers.Load())
	p.Int("current-waiting", v.hall.size.Load())
	p.Uint("total-connections", v.lastConn.Load())
	s.server.describeProcess(&p)
	p.Uint("binlog-oldest-index", a.Stats.Log.OldestIndex)
	p.Uint("binlog-current-index", a.Stats.Log.CurrentIndex)
	p.Uint("binlog-records-migrated", a.Stats.Log.RecordsMigrated)
	p.Uint("binlog-records-written", a.Stats.Log.RecordsWritten)
	p.Uint("binlog-max-size", a.Stats.Log.MaxSize)
	p.Bool("draining", v.draining.Load())
	p.Bare("id", v.id)
	s.server.describeMachine(&p)
	if a.Stats.Instances > 0 {
		p.Uint("redstalk-instances", a.Stats.Instances)
	}
	if v.config.Version != "" {
		v.text(&p, "redstalk-version", v.config.Version)
	}
	s.out.OK(p.Bytes())
}

// describeProcess adds what stats tells about the process.
func (s *Server) describeProcess(p *protocol.Page) {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use) // cannot fail with these arguments
	p.Int("pid", int64(os.Getpid()))
	p.Quoted("version", beanstalkdVersion)
	p.Seconds("rusage-utime", int64(use.Utime.Sec), int64(use.Utime.Usec))
	p.Seconds("rusage-stime", int64(use.Stime.Sec), int64(use.Stime.Usec))
	p.Int("uptime", int64(time.Since(s.begun)/time.Second))
}

// describeMachine adds what stats tells about the machine.
func (s *Server) describeMachine(p *protocol.Page) {
	m := uname()
	s.text(p, "hostname", m.hostname)
	p.Quoted("os", m.os)
	s.text(p, "platform", m.platform)
}

// text adds a string that 1.12 prints bare and 1.13 in quotes.
func (s *Server) text(p *protocol.Page, key, value string) {
	if s.config.QuoteStats {
		p.Quoted(key, value)
	} else {
		p.Bare(key, value)
	}
}

type machine struct{ hostname, os, platform string }

func answerStatsJob(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	j := a.Job
	p.Uint("id", j.ID)
	s.server.text(&p, "tube", j.Tube)
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
	s.out.OK(p.Bytes())
}

func answerStatsTube(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	t := a.TubeStats
	s.server.text(&p, "name", t.Name)
	p.Uint("current-jobs-urgent", t.Urgent)
	p.Uint("current-jobs-ready", t.Ready)
	p.Uint("current-jobs-reserved", t.Reserved)
	p.Uint("current-jobs-delayed", t.Delayed)
	p.Uint("current-jobs-buried", t.Buried)
	p.Uint("total-jobs", t.Total)
	p.Uint("current-using", t.Using)
	p.Uint("current-watching", t.Watching)
	p.Uint("current-waiting", t.Waiting+uint64(s.server.hall.Waiting(t.Name)))
	p.Uint("cmd-delete", t.Deletes)
	p.Uint("cmd-pause-tube", t.Pauses)
	p.Uint("pause", uint64(t.Pause))
	p.Int("pause-time-left", int64(t.PauseLeft/time.Second))
	s.out.OK(p.Bytes())
}

// list answers with a list of tube names.
func (s *session) list(names []string) {
	var p protocol.Page
	for _, name := range names {
		p.Item(name)
	}
	s.out.OK(p.Bytes())
}
