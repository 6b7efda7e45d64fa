package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// What only jobs with tags and tubes with policies need, both encoding and decoding: see
// lua/tagged.

// encodeTaggedPuts appends puts with tags, each with arguments of its own.
func (p *partition) encodeTaggedPuts(c *call, ops []*storage.Op) {
	c.words("put-tagged", &ops[0].Tube, boolArg(p.refs.isReported(ops[0].Tube)), len(ops))
	for _, op := range ops {
		c.addTaggedPut(op)
		p.groupNames.notePut(op)
	}
	c.expect((*partition).readTaggedPuts, ops...)
}

// addTaggedPut appends the arguments of a put with tags.
func (c *call) addTaggedPut(op *storage.Op) {
	tags := op.Args.Tags
	c.puts++
	how, ms := "in", int64(op.Delay)*1000
	switch {
	case tags.HasAt:
		how, ms = "at", int64(tags.At)/1e6
	case tags.HasDelay:
		ms = tags.Delay.Milliseconds()
	}
	c.words(tags.Key, int(tags.OnDuplicate), how, ms, len(op.Body), rangeTerms(op))
	metadata := tube.Metadata{
		Key: tags.Key, Group: tags.Group, Rules: tags.Rules, Occurrence: tags.Occurrence, Notes: tags.Notes(),
		Batch: tags.Batch, After: tags.After, AfterAll: tags.AfterAll,
	}
	switch {
	case tags.ExpiresAt != 0:
		c.words(-int64(tags.ExpiresAt) / 1e6)
	case tags.Expire == tube.NoLifetime:
		c.words("")
	default:
		c.words(tags.Expire.Duration().Milliseconds())
	}
	c.words(tags.Group, batchesText(tags))
	if tags.Expire.Duration() > 0 || tags.ExpiresAt != 0 {
		metadata.Expires = tube.Instant(time.Millisecond) // the script knows when
	}
	c.addRecordWith(op, &metadata)
}

// addRecordWith appends the record of a ready job with metadata.
func (c *call) addRecordWith(op *storage.Op, f *tube.Metadata) {
	c.addRecord(&storage.Op{Tube: op.Tube, Pri: op.Pri, TTR: op.TTR, Body: op.Body}, schema.AppendMetadata(nil, f))
}

// addStaged appends a record, which is staged if it is large.
func (c *call) addStaged(staged stagedRecord) {
	c.most = max(c.most, staged.len()+schema.MaxGrowth)
	if staged.len() >= c.largeFrom {
		c.stage(staged)
		return
	}
	c.words(slices.Concat(staged.head, staged.body, staged.metadata))
}

// readTaggedPuts reads the answers to puts with tags.
func (p *partition) readTaggedPuts(r *reply, ops []*storage.Op) {
	for i := range ops {
		p.readTaggedPut(r, ops[i:i+1])
	}
}

// readTaggedPut reads the answer to one put with tags.
func (p *partition) readTaggedPut(r *reply, ops []*storage.Op) {
	op, result := ops[0], tube.PutResult(r.int())
	switch result {
	case tube.PutNew:
		p.numberPuts(r, ops)
		p.holdings.drop(r.count())
		op.Answer.State = schema.StateOf(r.text())
		return
	case tube.PutRefused:
		op.Answer.Err = storage.ErrQuota
	case tube.PutSealed:
		op.Answer.Outcome = result
	default:
		op.Answer.ID, op.Answer.Outcome = r.count(), result
		op.Answer.State = schema.StateOf(r.text())
	}
	r.puts++
}

// encodeTagged appends an operation about keys or policies.
func encodeTagged(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.PeekKey:
		c.words("peek-key", &op.Tube, op.Args.Key)
		c.expect((*partition).readPeek, op)
	case storage.DeleteKey:
		c.words("delete-key", &op.Tube, op.Args.Key)
		c.expect((*partition).readDeleteKey, op)
	case storage.FindKey:
		c.words("find-key", u.listing.next(), maxTubes, op.Args.Key)
		c.expect(readFindKey(u), op)
	case storage.SetPolicy:
		c.words("set-policy", &op.Tube, schema.TextOfPolicy(op.Args.Policy), schema.LimitsText(op.Args.Policy), boolArg(schema.LimitsStarts(op.Args.Policy)), schema.KeepText(op.Args.Policy))
		c.expect((*partition).readFound, op)
	case storage.GetPolicy:
		c.words("get-policy", &op.Tube)
		c.expect((*partition).readGetPolicy, op)
	case storage.Policies:
		c.words("policies")
		c.expect((*partition).readPolicies, op)
	}
}

// readDeleteKey reads whether there was a job, and its id if it was reserved.
func (p *partition) readDeleteKey(r *reply, ops []*storage.Op) {
	if ops[0].Answer.NotFound = !r.found(); !ops[0].Answer.NotFound {
		p.holdings.drop(r.count())
	}
}

// readFindKey reads a part of the jobs that have a key.
func readFindKey(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		l := &u.listing
		l.from = r.int()
		var jobs []tube.JobStats
		for range r.int64() {
			if s := r.jobStats(r.count()); s != nil {
				jobs = append(jobs, *s)
			}
		}
		l.jobs = append(jobs, l.jobs...)
		if l.from > 0 {
			u.againLater()
			return
		}
		a := &ops[0].Answer
		a.Result, a.NotFound = &storage.Result{Jobs: firstJobs(l.jobs)}, len(l.jobs) == 0
		*l = listing{}
	}
}

// firstJobs returns jobs in the order of their ids, without duplicates.
func firstJobs(jobs []tube.JobStats) (first []tube.JobStats) {
	seen := make(map[uint64]bool, len(jobs))
	for _, s := range jobs {
		if !seen[s.ID] {
			first = append(first, s)
		}
		seen[s.ID] = true
	}
	sortByID(first)
	return first
}

func sortByID(jobs []tube.JobStats) {
	slices.SortFunc(jobs, func(a, b tube.JobStats) int { return cmp.Compare(a.ID, b.ID) })
}

func (p *partition) readGetPolicy(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	a.Result = &storage.Result{}
	if a.NotFound = !r.found(); !a.NotFound {
		a.Result.Policy = r.policy()
	}
}

// policy reads a policy; nil if there is none.
func (r *reply) policy() *tube.Policy {
	p, err := schema.ParsePolicy(r.text())
	if err != nil {
		r.err = fmt.Errorf("%w: %w", errReply, err)
	}
	return p
}

// policies reads the policies of a tube, its own first, and merges them; nil if there are none.
func (r *reply) policies() (merged *tube.Policy) {
	for text := range strings.Lines(r.text()) {
		p, err := schema.ParsePolicy(text)
		if err != nil {
			r.err = fmt.Errorf("%w: %w", errReply, err)
		}
		merged = merged.Over(p)
	}
	return merged
}

func (p *partition) readPolicies(r *reply, ops []*storage.Op) {
	names := make([]string, r.int())
	for i := range names {
		names[i] = r.text()
	}
	slices.Sort(names)
	names = slices.Compact(names)
	ops[0].Answer.Names = names
}
