package storetest

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// The rules about keys, failures and policies, in the model.

type modelKey struct{ tube, key string }

// modelTombstone is a key that stays taken although its job is gone.
type modelTombstone struct {
	id    uint64
	until time.Duration
}

// isDeadLetter reports whether a job is one that has not come home.
func (j *modelJob) isDeadLetter() bool {
	return j.metadata.FromTube != "" && j.metadata.FromTube != j.tube.name
}

// rules returns the rules that apply to a job: what it was put with, unless it is a dead letter, completed
// by the present policy of its tube.
func (m *Model) rules(j *modelJob) tube.Rules {
	r := j.metadata.Rules
	if j.isDeadLetter() {
		r = tube.Rules{}
	}
	for _, p := range m.policiesOf(j.tube.name) {
		r = completed(r, p)
	}
	return r
}

// policiesOf returns the policies that apply to a tube, its own first, then that of the longest
// pattern.
func (m *Model) policiesOf(name string) (all []*tube.Policy) {
	if p := m.policies[name]; p != nil {
		all = append(all, p)
	}
	for n := len(name); n >= 0; n-- {
		if p := m.policies[name[:n]+"*"]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// completed returns rules, with what they lack from a policy.
func completed(r tube.Rules, p *tube.Policy) tube.Rules {
	if len(r.Retry) == 0 {
		r.Retry, r.Doubled = p.Retry, p.Doubled
	}
	if r.Jitter == 0 {
		r.Jitter = p.Jitter
	}
	if r.OnExpire == 0 {
		r.OnExpire = p.OnExpire
	}
	if r.Keep == 0 {
		r.Keep = p.Keep
	}
	if r.Max == 0 {
		r.Max = p.Max
	}
	if r.Dead == "" {
		r.Dead = p.Dead
	}
	if !r.HasKeyTTL {
		r.KeyTTL, r.HasKeyTTL = p.KeyTTL, p.HasKeyTTL
	}
	return r
}

// keyed returns the job of a tube that has a key, nil if none has.
func (m *Model) keyed(name, key string) *modelJob {
	for _, j := range m.jobs {
		if key != "" && j.tube.name == name && j.metadata.Key == key {
			return j
		}
	}
	return nil
}

// putTagged carries out a Put, with tags or without.
func (m *Model) putTagged(op *storage.Op) {
	tags := &tube.Tags{}
	if op.Args != nil {
		tags = op.Args.Tags
	}
	old, onDuplicate := m.keyed(op.Tube, tags.Key), m.onDuplicate(op.Tube, tags)
	var followed *modelJob
	if onDuplicate == tube.Follow && old != nil && old.wasStarted() {
		followed, old = old, nil
	}
	if old != nil && tags.Batch != "" && old.metadata.Batch != tags.Batch && onDuplicate != tube.Replace {
		onDuplicate = tube.Fail
	}
	byJob := op.Kind == storage.PutScheduled // only a job prevents it
	if onDuplicate != tube.Replace && (old != nil || !byJob) && m.answerTaken(&op.Answer, modelKey{op.Tube, tags.Key}, old, onDuplicate) {
		return
	}
	if b := m.batches[tags.Batch]; b != nil && b.sealed {
		op.Answer.Outcome = tube.PutSealed
		return
	}
	if !m.hasRoom(op.Tube, len(op.Body), old) {
		op.Answer.Err = storage.ErrQuota
		return
	}
	j := m.put(op)
	if old != nil {
		if old.metadata.Batch == tags.Batch { // the new one takes its place
			old.metadata.Batch = ""
		}
		m.remove(old)
	}
	if followed != nil {
		followed.metadata.Key = ""
	}
	delete(m.tombstones, modelKey{op.Tube, tags.Key})
	j.metadata.Key, j.metadata.Group, j.metadata.Rules = tags.Key, tags.Group, tags.Rules
	j.metadata.Occurrence = tags.Occurrence
	if tags.Meta != nil || tags.Trace != "" || tags.Reason != "" {
		j.metadata.Notes = &tube.Notes{Meta: tags.Meta, Trace: tags.Trace, Reason: tags.Reason, FailedAt: tags.FailedAt}
	}
	switch {
	case tags.HasAt:
		wait := max(time.Duration(tags.At-m.clock), 0)
		j.delay = inSeconds(wait)
		m.wait(j, wait)
	case tags.HasDelay:
		j.delay = inSeconds(tags.Delay)
		m.wait(j, tags.Delay)
	}
	if m.setExpiry(j, tags); tags.ExpiresAt != 0 {
		j.expires, j.expiresOrder = max(m.now+time.Duration(tags.ExpiresAt-m.clock), 1), m.step
	}
	m.joinBatches(j, tags)
	if op.Args != nil {
		op.Answer.State = j.state
	}
}

// setExpiry decides when a job that was put expires.
func (m *Model) setExpiry(j *modelJob, tags *tube.Tags) {
	own := tags.Expire
	for _, p := range m.policiesOf(j.tube.name) {
		if own == tube.NoLifetime {
			own = p.Expire
		}
	}
	if own.Duration() == 0 {
		return
	}
	j.expires, j.expiresOrder = m.now+own.Duration(), m.step
	if tags.After != "" {
		j.expires += time.Duration(j.delay) * time.Second
	} else if j.state == tube.Delayed {
		j.expires = j.due + own.Duration()
	}
}

// isOver reports whether the time of a job is over.
func (m *Model) isOver(j *modelJob) bool {
	return j.expires != 0 && j.expires <= m.now && j.metadata.After == ""
}

// expire deletes or parks a job whose time is over.
func (m *Model) expire(j *modelJob) {
	j.tube.expired++
	rules := m.rules(j)
	if rules.OnExpire != tube.ExpirePark {
		m.end(j, tube.Expired, "", "")
		m.takeOff(j)
		return
	}
	m.park(j, tube.ParkedExpired, &rules)
}

// park buries a job for a reason. It can become a dead letter.
func (m *Model) park(j *modelJob, why tube.Parked, rules *tube.Rules) {
	m.bury(j)
	j.metadata.Parked = why
	if rules.Dead != "" && rules.Dead != j.tube.name {
		m.pending = append(m.pending, j)
	}
}

// onDuplicate returns what a put does if its key is taken.
func (m *Model) onDuplicate(name string, tags *tube.Tags) tube.OnDuplicate {
	onDuplicate := tags.OnDuplicate
	for _, p := range m.policiesOf(name) {
		if onDuplicate == tube.NotSaid {
			onDuplicate = p.OnDuplicate
		}
	}
	if onDuplicate == tube.NotSaid {
		onDuplicate = tube.Keep
	}
	return onDuplicate
}

// answerTaken answers a put whose key is taken: by the job old, or by a tombstone. It returns
// false if the key is free.
func (m *Model) answerTaken(a *storage.Answer, key modelKey, old *modelJob, onDuplicate tube.OnDuplicate) bool {
	stone, found := m.tombstones[key]
	if old == nil && !found {
		return false
	}
	a.Outcome = tube.PutExisting
	if onDuplicate == tube.Fail {
		a.Outcome = tube.PutDuplicate
	}
	if a.ID = stone.id; old != nil {
		a.ID, a.State = old.id, old.state
	}
	return true
}

// hasRoom reports whether the policy of a tube allows one more job, when the job old, which may
// be nil, is gone.
func (m *Model) hasRoom(name string, size int, old *modelJob) bool {
	jobs, bytes := 0, 0
	for _, j := range m.jobs {
		if j.tube.name == name && j != old {
			jobs, bytes = jobs+1, bytes+len(j.body)+len(j.checkpoint)
		}
	}
	mostJobs, mostBytes := uint64(math.MaxInt), uint64(math.MaxInt)
	for _, p := range slices.Backward(m.policiesOf(name)) {
		if p.HasQuotaJobs {
			mostJobs = p.QuotaJobs
		}
		if p.HasQuotaBytes {
			mostBytes = p.QuotaBytes
		}
	}
	return jobs+1 <= int(mostJobs) && bytes+size <= int(mostBytes)
}

// remove removes a job that somebody has deleted.
func (m *Model) remove(j *modelJob) {
	m.end(j, tube.Deleted, "", "")
	m.takeOff(j)
}

// takeOff removes a job. Its key stays taken for as long as its rules say.
func (m *Model) takeOff(j *modelJob) {
	if ttl := m.rules(j).KeyTTL; j.metadata.Key != "" && ttl > 0 {
		m.tombstones[modelKey{j.tube.name, j.metadata.Key}] = modelTombstone{j.id, m.now + ttl}
	}
	j.tube.deletes++
	if b := m.batches[j.metadata.Batch]; b != nil {
		b.gone++
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(other *modelJob) bool { return other == j })
	m.drop()
}

// endDelivery ends a reservation: the job is ready, delayed or parked. asked is the delay of a
// release.
func (m *Model) endDelivery(j *modelJob, failed bool, asked time.Duration) {
	if m.isOver(j) {
		m.expire(j)
		return
	}
	rules, why, wait := m.rules(j), tube.NotParked, asked
	failures := j.counters[tube.Releases] + j.counters[tube.Timeouts] - j.metadata.FailuresBefore
	deliveries := j.counters[tube.Reserves] - j.metadata.DeliveriesBefore
	waits := waitsOf(&rules)
	usedUp := failures > uint32(len(waits))
	switch {
	case failed && len(rules.Retry) > 0 && usedUp:
		why = tube.ParkedRetries
	case rules.Max > 0 && deliveries >= rules.Max:
		why = tube.ParkedDeliveries
	case failed && len(rules.Retry) > 0 && asked == 0:
		if wait = m.spread(j, waits[failures-1], &rules, failures); wait > 0 {
			j.delay = inSeconds(wait)
		}
	}
	if why == tube.NotParked {
		m.wait(j, wait)
		return
	}
	m.park(j, why, &rules)
}

// waitsOf returns the waits of rules as a list.
func waitsOf(rules *tube.Rules) []time.Duration {
	if rules.Doubled == 0 {
		return rules.Retry
	}
	waits := []time.Duration{rules.Retry[0]}
	for len(waits) < int(rules.Doubled) {
		waits = append(waits, min(2*waits[len(waits)-1], rules.Retry[1]))
	}
	return waits
}

// spread returns the wait of a job after a failure, with the jitter of its rules. If ids are not
// known yet, only rules without jitter are allowed.
func (m *Model) spread(j *modelJob, wait time.Duration, rules *tube.Rules, failures uint32) time.Duration {
	percent := int64(rules.Jitter) - 1
	if percent < 0 {
		if percent = 0; rules.Doubled > 0 {
			percent = 10
		}
	}
	ms := wait.Milliseconds()
	most := ms * percent / 100
	hash := (int64(j.id)%(1<<31-1)*48271 + int64(failures)*69621 + 1) % (1<<31 - 1) * 16807 % (1<<31 - 1)
	return time.Duration(ms-most+(hash%8192*(2*most+1))>>13) * time.Millisecond
}

// sendPending sends the pending dead letters to their tubes.
func (m *Model) sendPending() {
	pending := m.pending
	m.pending = nil
	for _, j := range pending {
		op := &storage.Op{Tube: m.rules(j).Dead, Pri: j.pri, TTR: j.ttr, Body: []byte(j.body)}
		dead := m.put(op)
		dead.metadata = tube.Metadata{Group: j.metadata.Group, FromTube: j.tube.name, FromID: j.id, Notes: deadNotes(j.metadata.Notes), Occurrence: j.metadata.Occurrence, Batch: j.metadata.Batch}
		if !j.isDeadLetter() {
			dead.metadata.Rules = j.metadata.Rules
		}
		dead.saveCheckpoint(j.checkpoint)
		dead.metadata.Progress = j.metadata.Progress
		j.metadata.Batch = ""
		dead.origKey = j.metadata.Key
		if m.learns {
			m.sent = append(m.sent, dead)
		}
		if m.keyed(op.Tube, j.metadata.Key) == nil {
			dead.metadata.Key = j.metadata.Key
			delete(m.tombstones, modelKey{op.Tube, j.metadata.Key})
		}
		m.end(j, tube.Dead, op.Tube, "")
		m.takeOff(j)
	}
}

// deadNotes returns the notes of a dead letter that is made of a job with notes, or with nil.
func deadNotes(of *tube.Notes) *tube.Notes {
	notes := tube.Notes{}
	if of != nil {
		notes = *of
	}
	notes.FirstPut = 1
	return &notes
}

// fail records that a delivery has failed by an operation, nil for a TTR: always if a reason was given, else unless that is a bury, or the job has no
// metadata and its tube no policy. When it was is compared only in so far as it is known.
func (m *Model) fail(j *modelJob, op *storage.Op, how tube.Failed) {
	args := &storage.Args{}
	if op != nil && op.Args != nil {
		args = op.Args
	}
	plain := reflect.DeepEqual(j.metadata, tube.Metadata{}) && j.expires == 0 && len(m.policiesOf(j.tube.name)) == 0
	if args.Reason == "" && (plain || how == tube.FailedByBury) {
		return
	}
	notes, reason := tube.Notes{}, args.Reason
	if how == tube.FailedByTTR && reason == "" {
		reason = "ttr"
	}
	if j.metadata.Notes != nil {
		notes = *j.metadata.Notes
	}
	if reason != "" {
		notes.Reason, notes.FailedAt = reason, 1
	}
	last := tube.Attempt{At: 1, How: how, Holder: args.By, Reason: reason[:min(len(reason), 200)]}
	notes.Attempts = append([]tube.Attempt{last}, notes.Attempts...)
	notes.Attempts = notes.Attempts[:min(len(notes.Attempts), 5)]
	j.metadata.Notes = &notes
}

// giveBack ends the reservations of a holder that is gone.
func (m *Model) giveBack(held func(*modelJob) bool) {
	for _, j := range m.sorted(tube.Reserved, held) {
		m.endDelivery(j, false, 0)
		m.sendPending()
	}
}

// kickOne kicks a job. If it was parked, its failures and deliveries count from zero again. If it
// was buried and its time is over, it does not expire any more. Its checkpoint goes, unless the operation keeps it.
func (m *Model) kickOne(j *modelJob, op *storage.Op) {
	j.startAnew(op)
	if j.state == tube.Buried && m.isOver(j) {
		j.expires = 0
	}
	m.leaveAfter(j)
	if j.metadata.Parked != tube.NotParked {
		j.metadata.Parked = tube.NotParked
		j.metadata.FailuresBefore = j.counters[tube.Releases] + j.counters[tube.Timeouts]
		j.metadata.DeliveriesBefore = j.counters[tube.Reserves]
	}
	j.state = tube.Ready
	j.counters[tube.Kicks]++
}

// startAnew drops the checkpoint of a job that a human starts again, unless the operation keeps it.
func (j *modelJob) startAnew(op *storage.Op) {
	if op.Args == nil || !op.Args.KeepCheckpoint {
		j.saveCheckpoint("")
	}
}

// replay carries out a Replay.
func (m *Model) replay(op *storage.Op) {
	j := m.job(op.ID)
	switch {
	case j == nil || j.state == tube.Reserved:
		op.Answer.NotFound = true
	case j.isDeadLetter():
		m.leaveAfter(j)
		j.state, j.metadata.Parked, j.metadata.Progress = tube.Ready, tube.NotParked, ""
		j.startAnew(op)
		m.moveTo(j, j.metadata.FromTube)
		if m.learns {
			m.left = append(m.left, j.id)
		}
	case j.state == tube.Buried:
		m.kickOne(j, op)
	default:
		op.Answer.NotFound = true
	}
}

// policy carries out an operation about policies.
func (m *Model) policy(op *storage.Op) {
	a := &op.Answer
	switch p := m.policies[op.Tube]; {
	case op.Kind == storage.GetPolicy:
		a.NotFound, a.Result = p == nil, &storage.Result{Policy: p}
	case op.Kind == storage.SetPolicy && op.Args.Policy == nil:
		delete(m.policies, op.Tube)
	case op.Kind == storage.SetPolicy:
		m.policies[op.Tube] = op.Args.Policy
	default:
		for name := range m.policies {
			a.Names = append(a.Names, name)
		}
		slices.Sort(a.Names)
	}
}

// byKey carries out an operation that names jobs by their key.
func (m *Model) byKey(op *storage.Op) {
	a, j := &op.Answer, m.keyed(op.Tube, op.Args.Key)
	switch op.Kind {
	case storage.PeekKey:
		answer(a, j)
	case storage.DeleteKey:
		if a.NotFound = j == nil; j != nil {
			m.remove(j)
		}
	case storage.FindKey:
		a.Result = &storage.Result{}
		for _, j := range m.jobs {
			if j.metadata.Key == op.Args.Key {
				a.Result.Jobs = append(a.Result.Jobs, *m.jobStats(j))
			}
		}
		slices.SortFunc(a.Result.Jobs, func(a, b tube.JobStats) int { return cmp.Compare(a.ID, b.ID) })
		a.NotFound = a.Result.Jobs == nil
	}
}
