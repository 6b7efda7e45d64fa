package storetest

import (
	"cmp"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// batchTTLs are the batches of a random history, and the TTL of each, in units; a put that does not say it leaves it as it is.
var batchTTLs = map[string]time.Duration{"one": 3 * time.Second, "two": 9 * time.Second, "a b": time.Hour, "z": time.Second}

var batchNames = []string{"one", "two", "a b", "z"}

func (h *history) someBatch() string { return batchNames[h.random.IntN(len(batchNames))] }

// randomBatchTags sometimes makes the job of a put a member, an after-job, or both.
func (h *history) randomBatchTags(tags *tube.Tags) {
	r := h.random
	if r.IntN(3) > 0 {
		tags.Batch = h.someBatch()
	}
	if after := h.someBatch(); r.IntN(4) == 0 && after != tags.Batch {
		tags.After, tags.AfterAll = after, r.IntN(2) == 0
	}
	if name := tags.Batch + tags.After; r.IntN(3) == 0 {
		tags.BatchTTL = batchTTLs[name] // none of both together
	}
}

// aboutBatches does one thing about batches.
func (h *history) aboutBatches() {
	r, name := h.random, h.someBatch()
	op := storage.Op{Args: &storage.Args{Name: name}}
	switch n := r.IntN(20); {
	case n < 2:
		op.Kind = storage.SealBatch
	case n < 3:
		op.Kind = storage.CancelBatch
	case n < 7:
		h.checkStamp(name)
		return
	case n < 8:
		h.pages(storage.Op{Kind: storage.ListRecords, Records: tube.JobBatches, MaxJobs: uint32(1 + r.IntN(3))})
		return
	case n < 10:
		h.memberPages(name)
		return
	case n < 12:
		op.Kind, op.Records, op.MaxJobs = storage.DueRecords, tube.JobBatches, 100
	default:
		h.settle(name)
		return
	}
	h.compare([]storage.Op{op})
}

// readBatch reads the records of a batch, of all parts.
func (h *history) readBatch(name string) *storage.Result {
	ops := []storage.Op{{Kind: storage.GetRecord, Records: tube.JobBatches, Args: &storage.Args{Name: name}}}
	if h.compare(ops); h.ended || ops[0].Answer.NotFound {
		return nil
	}
	return ops[0].Answer.Result
}

// batchStamp is the sum of the stamps of a batch, and its pending members.
type batchStamp struct{ stamp, pending uint64 }

// checkStamp reads a batch, and checks that its stamp has grown if there are more pending members, and never shrinks.
func (h *history) checkStamp(name string) {
	r := h.readBatch(name)
	was, is := h.stamps[name], batchStamp{}
	if delete(h.stamps, name); r == nil {
		return
	}
	for _, p := range r.Batches() {
		is.stamp, is.pending = is.stamp+p.Stamp, is.pending+p.Pending
	}
	if is.stamp < was.stamp || is.pending > was.pending && is.stamp == was.stamp {
		h.Fatalf("the stamp of %s is %+v after %+v", name, is, was)
	}
	if h.stamps[name] = is; r.Batches()[0].Sealed && len(r.Batches()) != r.Parts {
		h.Fatalf("%s is sealed, and has %d records in %d parts", name, len(r.Batches()), r.Parts)
	}
}

// memberPages lists the members of a batch, page by page.
func (h *history) memberPages(name string) {
	var got, want []tube.JobStats
	op := storage.Op{Kind: storage.ListMembers, MaxJobs: uint32(1 + h.random.IntN(4)), Args: &storage.Args{Name: name}}
	for more := true; more; more = op.Args.Cursor != "" {
		ops := []storage.Op{op}
		if storage.DoWait(h.store, ops); ops[0].Answer.Err != nil {
			h.ended = h.trail != nil && hasEnded(ops)
			return
		}
		got = append(got, ops[0].Answer.Result.Jobs...)
		op.Args = &storage.Args{Name: name, Cursor: ops[0].Answer.Result.Cursor}
	}
	for _, j := range h.model.jobs {
		if j.metadata.Batch == name {
			want = append(want, *h.model.jobStats(j))
			want[len(want)-1].Size = len(j.body)
		}
	}
	for _, jobs := range [][]tube.JobStats{got, want} {
		slices.SortFunc(jobs, func(a, b tube.JobStats) int { return cmp.Compare(a.ID, b.ID) })
	}
	if diff := differResult(&storage.Result{Jobs: got}, &storage.Result{Jobs: want}, time.Duration(h.engine.unit())*tolerance); diff != "" {
		h.Fatalf("the members of %s differ: %s\nmodel: %s", name, showResult(&storage.Answer{Result: &storage.Result{Jobs: got}}), showResult(&storage.Answer{Result: &storage.Result{Jobs: want}}))
	}
}

// settle settles a batch in one part, or all: with a verdict as it follows from what is known, or any; sometimes with a
// wrong stamp. It can forget the batch.
func (h *history) settle(name string) {
	r, read := h.random, h.readBatch(name)
	if read == nil {
		return
	}
	verdict, parts := verdictOf(*sumBatches(read.Batches())[0]), slices.Clone(read.Batches())
	if r.IntN(3) == 0 {
		verdict = tube.Verdict(r.IntN(int(tube.LastVerdict) + 1))
	}
	forget, wrong, live := r.IntN(4) == 0, uint64(max(r.IntN(6), 4)-4), uint64(0)
	for _, p := range parts {
		live += p.Pending + p.Parked + p.AfterHeld + p.AfterFailed
	}
	if r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] }); !forget || wrong > 0 {
		parts = parts[:1+r.IntN(len(parts))]
	}
	if forget && live > 0 && read.Parts > 1 {
		return
	}
	h.model.parts = read.Batches()
	for _, p := range parts {
		s := p.Settlement(verdict, 0)
		s.Stamp, s.Forget = s.Stamp+wrong, forget
		if r.IntN(2) == 0 || h.engine.Now == nil {
			s.Due = tube.Never
		}
		h.compare([]storage.Op{{Kind: storage.SettleBatch, MaxJobs: uint32(1 + r.IntN(4)), Args: &storage.Args{Name: name, Settle: s}}})
		if h.ended {
			return
		}
	}
	if forget {
		delete(h.stamps, name)
	}
}
