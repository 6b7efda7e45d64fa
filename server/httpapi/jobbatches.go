package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/jobbatch"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the operations about batches of jobs after which others run.

func (svc *service) jobBatchOperations() []*row {
	const path, one = "/v1/batches", "/v1/batches/{batch}"
	put := direct[newBatchInput, newBatchOutput](svc, Operation{"POST", path, access.Put, Listed}, doc("putBatchOfJobs", "Put the members of a batch, and the jobs after it", 201,
		"After that it is sealed, unless seal is false. If a job cannot be put, the others are withdrawn, as far as nobody has reserved them."), svc.putJobBatch)
	seal := typed(svc, Operation{"POST", one + "/seal", rightOf(protocol.SealBatch), OfBatch}, doc("sealBatch", "Say that a batch gets no more members", 204, ""), svc.sealBatch)
	put.extraStatuses, seal.extraStatuses = []int{409, 413, 429, 507}, []int{507}
	return []*row{
		put,
		typed(svc, Operation{"GET", path, rightOf(protocol.ListBatches), Listed}, doc("batches", "List batches", 200, "Sorted by name."), svc.listBatches),
		typed(svc, Operation{"GET", one, rightOf(protocol.StatsBatch), OfBatch}, doc("batch", "Get a batch", 200, "With the first jobs after it."), svc.jobBatch),
		typed(svc, Operation{"GET", one + "/members", rightOf(protocol.ListMembers), OfBatch}, doc("members", "List the members of a batch that exist", 200,
			"In no particular order, and without those of tubes whose jobs the user may not list."), svc.listMembers),
		seal,
		typed(svc, Operation{"DELETE", one, rightOf(protocol.CancelBatch), OfBatch}, doc("cancelBatch", "Delete the members of a batch that are not reserved", 200,
			"It also seals the batch. One that has ended, and has no jobs any more, is forgotten: its name is free."), svc.cancelBatch),
	}
}

// BatchPath is a batch in a path.
type BatchPath struct {
	Batch string `path:"batch" minLength:"1" maxLength:"100" doc:"write / as %2F"`
}

// checkName makes the name whole, or returns the problem if it is none.
func (in *BatchPath) checkName(ctx context.Context) (err error) {
	in.Batch, err = wholeBatch(ctx, "batch", in.Batch)
	return err
}

// checkBatch returns the problem for a name that is not the name of a batch.
func checkBatch(field, name string) error {
	if protocol.ValidBatch(name) {
		return nil
	}
	return invalid("%s: %q is not the name of a batch: 1 to %d printable ASCII characters without spaces", field, name, protocol.MaxBatchName)
}

// BatchInfo describes a batch.
type BatchInfo struct {
	Name        string `json:"name"`
	State       string `json:"state" enum:"open,sealed,failing,unsealed,failed,done,cyclic"`
	Sealed      bool   `json:"sealed" doc:"no more members come"`
	Total       uint64 `json:"total" doc:"members so far"`
	Pending     uint64 `json:"pending"`
	Parked      uint64 `json:"parked" doc:"members that are buried, or dead letters"`
	Done        uint64 `json:"done" doc:"deleted members"`
	Gone        uint64 `json:"gone" doc:"members that were flushed, cancelled, replaced or have expired"`
	AfterHeld   uint64 `json:"after_held" doc:"jobs that wait for the batch"`
	AfterFailed uint64 `json:"after_failed" doc:"jobs that are parked because of the batch"`
	Created     int64  `json:"created_ms" doc:"in milliseconds since the Unix epoch"`
	Age         int64  `json:"age" doc:"seconds"`
	TTL         int64  `json:"ttl_ms" doc:"how long it can stay unsealed, and is known after its end"`
}

func batchInfoOf(s *jobbatch.Summary) BatchInfo {
	return BatchInfo{
		Name: s.Name, State: s.State, Sealed: s.Sealed, Total: s.Total(), Pending: s.Pending, Parked: s.Parked, Done: s.Done, Gone: s.Gone,
		AfterHeld: s.AfterHeld, AfterFailed: s.AfterFailed, Created: msOf(s.Created), Age: int64(s.Age / time.Second), TTL: s.TTL.Milliseconds(),
	}
}

type batchesOutput struct{ Body batchesPage }

// batchesPage is a page of batches.
type batchesPage struct {
	Batches []BatchInfo `json:"batches" nullable:"false"`
	Next    string      `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (svc *service) listBatches(ctx context.Context, in *recordsInput) (*batchesOutput, error) {
	list, next, err := svc.readableBatches(ctx, uint32(in.Limit), in.Cursor)
	if err != nil {
		return nil, err
	}
	page := batchesPage{Batches: make([]BatchInfo, len(list)), Next: next}
	for i := range list {
		page.Batches[i] = batchInfoOf(&list[i])
	}
	return &batchesOutput{page}, nil
}

// readableBatches lists the batches that the user of a request may see.
func (svc *service) readableBatches(ctx context.Context, count uint32, cursor string) ([]jobbatch.Summary, string, error) {
	if u := access.UserIn(ctx); u != nil {
		if prefixes, all := u.ReadableBatches(); !all {
			return svc.batches.ListOf(ctx, prefixes, count, cursor)
		}
	}
	return svc.batches.List(ctx, count, cursor)
}

type jobBatchOutput struct{ Body batchWithAfter }

// batchWithAfter describes a batch and the first jobs after it.
type batchWithAfter struct {
	BatchInfo
	After []JobInfo `json:"after" nullable:"false" doc:"the first jobs after it, without those of tubes whose jobs the user may not list"`
}

func (svc *service) jobBatch(ctx context.Context, in *BatchPath) (*jobBatchOutput, error) {
	if err := in.checkName(ctx); err != nil {
		return nil, err
	}
	s, err := svc.batches.Get(ctx, in.Batch)
	if err != nil {
		return nil, err
	}
	return &jobBatchOutput{batchWithAfter{batchInfoOf(s), visibleJobs(ctx, s.After)}}, nil
}

// visibleJobs describes those of the jobs that the user of a request may list.
func visibleJobs(ctx context.Context, jobs []tube.JobStats) []JobInfo {
	u, infos := access.UserIn(ctx), []JobInfo{}
	for i := range jobs {
		if u == nil || u.On(jobs[i].Tube)&access.List != 0 {
			infos = append(infos, infoOf(ctx, &jobs[i]))
		}
	}
	return infos
}

type membersInput struct {
	BatchPath
	Cursor string `query:"cursor" maxLength:"200" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"a page can have fewer although there are more"`
}

type membersOutput struct{ Body membersPage }

// membersPage is a page of the members of a batch.
type membersPage struct {
	Jobs []JobInfo `json:"jobs" nullable:"false"`
	Next string    `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (svc *service) listMembers(ctx context.Context, in *membersInput) (*membersOutput, error) {
	if err := in.checkName(ctx); err != nil {
		return nil, err
	}
	jobs, next, err := svc.batches.Members(ctx, in.Batch, uint32(in.Limit), in.Cursor)
	if err != nil {
		return nil, err
	}
	return &membersOutput{membersPage{visibleJobs(ctx, jobs), next}}, nil
}

func (svc *service) sealBatch(ctx context.Context, in *BatchPath) (*noOutput, error) {
	if err := in.checkName(ctx); err != nil {
		return nil, err
	}
	return nil, svc.batches.Seal(context.WithoutCancel(ctx), in.Batch)
}

type cancelOutput struct {
	Body struct {
		Removed int `json:"removed" doc:"how many members were deleted"`
	}
}

func (svc *service) cancelBatch(ctx context.Context, in *BatchPath) (*cancelOutput, error) {
	if err := in.checkName(ctx); err != nil {
		return nil, err
	}
	out := new(cancelOutput)
	var err error
	if out.Body.Removed, err = svc.batches.Cancel(context.WithoutCancel(ctx), in.Batch); err != nil {
		return nil, err
	}
	return out, nil
}

// newBatch is the JSON description of a batch to put.
type newBatch struct {
	Name    *string     `json:"name,omitempty" minLength:"1" maxLength:"100" doc:"a new name by default; put more members with it"`
	TTL     *duration   `json:"ttl,omitempty" doc:"how long it can stay unsealed, and is known after its end; the default is 24h"`
	Members []memberJob `json:"members,omitempty" maxItems:"1000"`
	After   []afterJob  `json:"after,omitempty" maxItems:"1000" doc:"jobs that run when all members are done"`
	Seal    *bool       `json:"seal,omitempty" doc:"whether the batch gets no more members; true by default"`
}

// memberJob is a member of a batch to put.
type memberJob struct {
	Tube string `json:"tube" minLength:"1" maxLength:"200"`
	newJob
}

// afterJob is a job after a batch to put.
type afterJob struct {
	memberJob
	All bool `json:"all,omitempty" doc:"run when all members have ended, also if some are parked or gone"`
}

// newBatchInput and newBatchOutput document putJobBatch.
type newBatchInput struct{ Body newBatch }

type newBatchOutput struct {
	Body struct {
		Name    string      `json:"name"`
		Members []putAnswer `json:"members" nullable:"false"`
		After   []putAnswer `json:"after" nullable:"false"`
	}
}

func (svc *service) putJobBatch(w http.ResponseWriter, r *http.Request) {
	var b newBatch
	err := readJSON(w, r, max(maxBatchBytes, svc.jsonLimit()), func(text []byte) error { return unmarshal(text, &b) })
	var name string
	var ops []storage.Op
	if err == nil {
		name, ops, err = svc.batchPuts(r.Context(), &b)
	}
	if err == nil {
		err = svc.putTogether(r.Context(), ops)
	}
	if err == nil && (b.Seal == nil || *b.Seal) {
		err = svc.batches.Seal(context.WithoutCancel(r.Context()), name)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	text := append(strconv.AppendQuote([]byte(`{"name":`), name), `,"members":`...)
	text = append(appendPutAnswers(text, ops[:len(b.Members)]), `,"after":`...)
	writeJSON(w, http.StatusCreated, append(appendPutAnswers(text, ops[len(b.Members):]), '}'))
}

func appendPutAnswers(text []byte, ops []storage.Op) []byte {
	text = append(text, '[')
	for i := range ops {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(appendPutAnswer(append(text, '{'), &ops[i]), '}')
	}
	return append(text, ']')
}

// batchPuts returns the name of a batch and the puts of its jobs: its members, and the jobs after it.
func (svc *service) batchPuts(ctx context.Context, b *newBatch) (name string, ops []storage.Op, err error) {
	if len(b.Members) > maxBatch || len(b.After) > maxBatch {
		return "", nil, invalid("members, after: there are %d and %d jobs; the limit is %d of each per request", len(b.Members), len(b.After), maxBatch)
	}
	if len(b.Members)+len(b.After) == 0 && b.Seal != nil && !*b.Seal {
		return "", nil, invalid("members: there is no job, and seal is false")
	}
	if name = newBatchName(); b.Name != nil {
		name = *b.Name
	}
	if name, err = wholeBatch(ctx, "name", name); err != nil {
		return "", nil, err
	}
	if u := access.UserIn(ctx); u != nil && u.OnBatch(name)&access.Put == 0 { // it is sealed, even if it has no members
		return "", nil, forbidden()
	}
	add := func(field string, i int, j *memberJob, change func(*Terms)) error {
		if j.Batch != nil && field == "members" || j.After != nil && field == "after" || j.AfterAll != nil && field == "after" {
			return invalid("%s[%d]: its batch is that of the request", field, i)
		}
		change(&j.Terms)
		op, err := svc.batchPut(ctx, j)
		if err != nil {
			p := *problemOf(err)
			p.Detail = field + "[" + strconv.Itoa(i) + "]: " + p.Detail
			return &p
		}
		ops = append(ops, op)
		return nil
	}
	for i := range b.Members {
		if err := add("members", i, &b.Members[i], func(t *Terms) { t.Batch, t.BatchTTL = &name, b.TTL }); err != nil {
			return "", nil, err
		}
	}
	for i := range b.After {
		j := &b.After[i]
		if err := add("after", i, &j.memberJob, func(t *Terms) {
			if t.BatchTTL = b.TTL; j.All {
				t.AfterAll = &name
			} else {
				t.After = &name
			}
		}); err != nil {
			return "", nil, err
		}
	}
	return name, ops, nil
}

// batchPut returns the put of one job of a batch, if the user of the request may put it.
func (svc *service) batchPut(ctx context.Context, j *memberJob) (op storage.Op, err error) {
	if !protocol.ValidName([]byte(j.Tube)) {
		return op, invalidTube("tube", j.Tube)
	}
	if err = checkOtherTube(ctx, access.Put, j.Tube); err != nil {
		return op, err
	}
	if op, err = j.op(j.Tube); err != nil {
		return op, err
	}
	if len(op.Body) > svc.queue.MaxJobSize() {
		return op, newProblem(http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", "the body has more than %d bytes", svc.queue.MaxJobSize())
	}
	return op, checkPut(ctx, &op)
}

func newBatchName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return "batch-" + hex.EncodeToString(b[:])
}

// putTogether puts jobs, whose answers it sets. If one is refused, it withdraws the others, as far as nobody has
// reserved them.
func (svc *service) putTogether(ctx context.Context, ops []storage.Op) error {
	if len(ops) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	answers, err := svc.queue.Do(ctx, ops...)
	if err != nil {
		return err
	}
	var puts []storage.Op
	for i := range answers {
		ops[i].Answer = answers[i]
		if failure := putFailure(&answers[i]); failure != nil {
			err = failure
		} else if answers[i].Outcome == tube.PutNew {
			puts = append(puts, storage.Op{Kind: storage.Move, Move: tube.Withdraw, ID: answers[i].ID})
		}
	}
	if err != nil && len(puts) > 0 {
		if _, failed := svc.queue.Do(ctx, puts...); failed != nil {
			svc.log.Warn("jobs of a batch that was refused could not be withdrawn", "jobs", len(puts), "err", failed)
		}
	}
	return err
}
