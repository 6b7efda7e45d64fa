package metrics

import (
	"slices"
	"time"

	"redstalk/server/queue"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// second is the unit of readings of durations.
const second = float64(time.Second)

// timesBounds are the bounds of tube.Times, in seconds.
var timesBounds = func() []string {
	bounds := tube.TimesBounds()
	return boundsOf(len(bounds), func(i int) float64 { return bounds[i].Seconds() })
}()

// addReading adds a histogram of integers. unit is how many of them make one unit of the
// metric, such as 1e9 for nanoseconds and seconds. If r is nil, it adds nothing.
func (fs families) addReading(name string, r *telemetry.Reading, unit float64, labels ...string) {
	if r == nil {
		return
	}
	bounds := boundsOf(len(r.Bounds), func(i int) float64 { return float64(r.Bounds[i]) / unit })
	fs.addHistogram(name, bounds, r.Counts, float64(r.Sum)/unit, labels...)
}

// states are the values of the label state, in the order in which they are shown.
var states = [...]string{tube.Ready.String(), tube.Reserved.String(), tube.Delayed.String(), tube.Buried.String()}

// fill adds all metrics whose values are known.
func (o *Observer) fill(fs families, f *metadata) {
	fs.addBool("redstalk_ready", f.unready == "")
	fs.add("redstalk_build_info", 1, o.config.Version)
	fs.addBool("redstalk_store_up", f.q != nil && f.report.Unavailable == nil)
	o.addHTTP(fs)
	if f.q == nil {
		return
	}
	fs.addBool("redstalk_draining", f.q.Draining())
	fs.add("redstalk_timer_lag_seconds", f.q.TimerLag().Seconds())
	o.addServer(fs, f.q)
	fs.addStore(f)
	if f.stats != nil {
		fs.addTotals(f.stats)
	}
	o.addTubes(fs, f)
	o.addRecords(fs)
	o.addTracing(fs)
	if stats := o.pushStats(); stats != nil {
		o.addPushes(fs, stats)
	}
}

// addServer adds the counters of the listeners.
func (o *Observer) addServer(fs families, q *queue.Queue) {
	c := &q.Counters
	fs.add("redstalk_connections", float64(c.Connections.Load()))
	fs.add("redstalk_connections_accepted_total", float64(c.TotalConnections.Load()))
	fs.add("redstalk_producer_connections", float64(c.Producers.Load()))
	fs.add("redstalk_worker_connections", float64(c.Workers.Load()))
	fs.add("redstalk_waiting_reserves", float64(q.Waiters()))
	fs.add("redstalk_received_bytes_total", float64(c.Received.Load()))
	fs.add("redstalk_sent_bytes_total", float64(c.Sent.Load()))
	for i, command := range o.config.Commands {
		for r := range queue.NumResults {
			if n := c.Results[i][r].Load(); n > 0 {
				fs.add("redstalk_commands_total", float64(n), command, r.String())
			}
		}
	}
}

// addStore adds the store's counters of its own work.
func (fs families) addStore(f *metadata) {
	r := &f.report
	fs.addReading("redstalk_store_call_seconds", r.Calls, second)
	fs.addReading("redstalk_store_call_operations", r.Operations, 1)
	fs.addReading("redstalk_store_sync_seconds", r.Syncs, second)
	if r.SinceContact >= 0 {
		fs.add("redstalk_store_silence_seconds", r.SinceContact.Seconds())
		fs.add("redstalk_store_retries_total", float64(r.Retries))
		fs.add("redstalk_store_replays_total", float64(r.Replays))
	}
	if r.Disk != nil {
		fs.add("redstalk_store_log_bytes", float64(r.Disk.Log))
		fs.add("redstalk_store_disk_free_bytes", float64(r.Disk.Free))
		if f.stats != nil {
			fs.add("redstalk_store_records_written_total", float64(f.stats.Log.RecordsWritten))
			fs.add("redstalk_store_records_migrated_total", float64(f.stats.Log.RecordsMigrated))
		}
	}
}

func (fs families) addTotals(s *queue.Stats) {
	for i, n := range [...]uint64{s.Ready, s.Reserved, s.Delayed, s.Buried} {
		fs.add("redstalk_jobs", float64(n), states[i])
	}
	fs.add("redstalk_urgent_jobs", float64(s.Urgent))
	fs.add("redstalk_tubes", float64(s.Tubes))
	fs.add("redstalk_hung_jobs", float64(s.Hung))
	fs.add("redstalk_ended_records", float64(s.Ended))
	fs.add("redstalk_ended_bytes", float64(s.EndedBytes))
	if made := s.Log.LastBackup; !made.IsZero() {
		fs.add("redstalk_last_backup_timestamp_seconds", float64(made.Unix()))
	}
	fs.add("redstalk_held_keys", float64(s.HeldKeys))
	fs.add("redstalk_checkpoints", float64(s.Checkpoints.Jobs))
	fs.add("redstalk_checkpoint_bytes", float64(s.Checkpoints.Bytes))
	if s.Instances > 0 {
		fs.add("redstalk_instances", float64(s.Instances))
	} else {
		fs.add("redstalk_jobs_on_disk", float64(s.OnDisk))
	}
}

// addTubes adds the tubes by name, and all others as one.
func (o *Observer) addTubes(fs families, f *metadata) {
	for _, t := range f.tubes {
		fs.addJobs(t.Name, t.Urgent, t.Ready, t.Reserved, t.Delayed, t.Buried)
		fs.add("redstalk_tube_oldest_ready_seconds", t.OldestReady.Seconds(), t.Name)
		fs.add("redstalk_tube_waiting_reserves", float64(t.Waiting), t.Name)
		fs.addBool("redstalk_tube_paused", t.Pause > 0, t.Name)
		fs.addBool("redstalk_tube_for_dead_letters", f.deadLetters[t.Name], t.Name)
		fs.addLimits(t.Name, t.Limits)
	}
	if f.stats != nil && f.stats.Tubes > uint64(len(f.tubes)) {
		fs.addOthers(f)
	}
	names := make([]string, 0, len(f.flows))
	for name := range f.flows {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fs.addFlow(name, f.flows[name])
	}
	if f.rest != (tube.Flow{}) {
		fs.addFlow(Others, &f.rest)
	}
}

func (fs families) addJobs(name string, urgent, ready, reserved, delayed, buried uint64) {
	fs.add("redstalk_tube_urgent_jobs", float64(urgent), name)
	for i, n := range [...]uint64{ready, reserved, delayed, buried} {
		fs.add("redstalk_tube_jobs", float64(n), name, states[i])
	}
}

// addLimits adds figures about the groups and limits of a tube; none if l is nil.
func (fs families) addLimits(name string, l *tube.LimitStats) {
	if l == nil {
		return
	}
	for held := tube.NotHeld + 1; held <= tube.LastHeld; held++ {
		fs.add("redstalk_tube_held_jobs", float64(l.Held[held]), name, held.String())
	}
	fs.add("redstalk_tube_groups", float64(l.Groups), name)
	fs.add("redstalk_tube_full_groups", float64(l.Full), name)
	for _, g := range l.Busiest {
		fs.add("redstalk_tube_group_reserved_jobs", float64(g.Reserved), name, g.Name)
	}
}

// addOthers adds the jobs of the tubes that are not shown by name: the totals minus the tubes
// that are. Since they are read from the store one after the other, the result can be slightly
// off.
func (fs families) addOthers(f *metadata) {
	left := f.stats.Totals
	subtract := func(all *uint64, n uint64) { *all -= min(*all, n) }
	for _, t := range f.tubes {
		subtract(&left.Urgent, t.Urgent)
		subtract(&left.Ready, t.Ready)
		subtract(&left.Reserved, t.Reserved)
		subtract(&left.Delayed, t.Delayed)
		subtract(&left.Buried, t.Buried)
	}
	fs.addJobs(Others, left.Urgent, left.Ready, left.Reserved, left.Delayed, left.Buried)
}

// addFlow adds the counters of a tube. An empty histogram is left out, since it would be
// sixteen lines.
func (fs families) addFlow(name string, f *tube.Flow) {
	for metric, n := range map[string]uint64{
		"redstalk_tube_puts_total":       f.Puts,
		"redstalk_tube_deliveries_total": f.Counts[tube.Reserves],
		"redstalk_tube_deletes_total":    f.Deletes,
		"redstalk_tube_timeouts_total":   f.Counts[tube.Timeouts],
		"redstalk_tube_releases_total":   f.Counts[tube.Releases],
		"redstalk_tube_buries_total":     f.Counts[tube.Buries],
		"redstalk_tube_kicks_total":      f.Counts[tube.Kicks],
		"redstalk_tube_expired_total":    f.Expired,
		"redstalk_tube_parked_total":     f.Parked,
	} {
		fs.add(metric, float64(n), name)
	}
	if f.Holds > 0 {
		fs.add("redstalk_tube_holds_total", float64(f.Holds), name)
	}
	fs.addTimes("redstalk_tube_wait_seconds", &f.Waits, name)
	fs.addTimes("redstalk_tube_run_seconds", &f.Runs, name)
}

func (fs families) addTimes(metric string, t *tube.Times, name string) {
	if t.Count() > 0 {
		fs.addHistogram(metric, timesBounds, t.Counts[:], t.Sum.Seconds(), name)
	}
}
