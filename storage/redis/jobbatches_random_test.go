package redis

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

var membersSeed = flag.Uint64("members-seed", 0, "seed of TestMembersAreCountedOnce; 0: another one each time")

// membersTest does things with members of batches at random, and counts them.
type membersTest struct {
	t      *testing.T
	s      *Store
	client *goredis.Client
	rng    *rand.Rand
	tubes  []string
	put    map[string]uint64 // by batch: members that were put
	done   map[string]uint64 // by batch: members that were deleted
	mine   map[uint64]bool   // jobs that holder 1 has reserved, perhaps
	lease  map[uint64]uint64 // tokens of leased jobs
}

// TestMembersAreCountedOnce: whatever is done with the members of batches, each is counted once, and what is counted is
// there.
func TestMembersAreCountedOnce(t *testing.T) {
	seed := *membersSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Log("seed", seed)
	steps := 1500
	if testing.Short() {
		steps = 400
	}
	for _, partitions := range []int{1, 16} {
		for name, large := range map[string]int{"large": 1, "lost answers": 0} {
			t.Run(fmt.Sprint(name, partitions), func(t *testing.T) {
				if !inThisHalf(partitions + large) {
					t.Skip("in the other half")
				}
				t.Parallel()
				server := redistest.Start(t)
				o := Options{URL: server.URL(), Partitions: partitions, Timeout: patient, largeFrom: large}
				if name == "lost answers" {
					o.URL = losingAnswers(t, server)
				}
				m := &membersTest{
					t: t, s: openWith(t, o), client: server.Client(t), rng: rand.New(rand.NewPCG(seed, uint64(partitions+large))), put: map[string]uint64{}, done: map[string]uint64{},
					mine: map[uint64]bool{}, lease: map[uint64]uint64{},
				}
				from, to := tubesInTwoPartitions(16)
				m.tubes = []string{from, to, "third", "dead"}
				for n := range steps {
					m.step()
					if n%200 == 199 {
						m.check()
					}
				}
				o = m.s.parts[0].options
				o.URL = server.URL()
				wantNoFaults(t, o)
			})
		}
	}
}

// losingAnswers returns the URL of a proxy that loses some of the answers of a server.
func losingAnswers(t *testing.T, server *redistest.Server) string {
	proxy := redistest.NewProxy(t, server)
	var answers atomic.Int64
	proxy.Intercept(func([]byte) redistest.Fate { return redistest.Pass }, func(piece []byte) redistest.Fate {
		if isAnswer(piece) && answers.Add(1)%50 == 0 {
			return redistest.Cut
		}
		return redistest.Pass
	})
	return proxy.URL()
}

func (m *membersTest) tube() string { return m.tubes[m.rng.IntN(len(m.tubes))] }

func (m *membersTest) state() tube.State {
	return []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved, tube.Gone}[m.rng.IntN(5)]
}

// tags returns tags of a put.
func (m *membersTest) tags() (tags tube.Tags) {
	tags.Batch = []string{"a", "b", ""}[m.rng.IntN(3)]
	if m.rng.IntN(3) == 0 {
		return tags
	}
	if m.rng.IntN(4) == 0 {
		tags.After, tags.AfterAll = "c", m.rng.IntN(2) == 0
	}
	if m.rng.IntN(3) == 0 {
		tags.Key, tags.OnDuplicate = fmt.Sprint("key", m.rng.IntN(3)), tube.OnDuplicate(m.rng.IntN(int(tube.Follow)+1))
	}
	if m.rng.IntN(3) == 0 {
		tags.Max, tags.Dead = 1, "dead"
	}
	if m.rng.IntN(4) == 0 {
		tags.Group = fmt.Sprint("group", m.rng.IntN(3))
	}
	if m.rng.IntN(4) == 0 {
		tags.HasDelay, tags.Delay = true, time.Duration(m.rng.IntN(2000))*time.Millisecond
	}
	if m.rng.IntN(6) == 0 {
		tags.Expire = tube.LifetimeOf(time.Duration(1+m.rng.IntN(50)) * time.Millisecond)
	}
	return tags
}

func (m *membersTest) puts() {
	var ops []storage.Op
	name, tags := m.tube(), m.tags()
	for range 1 + m.rng.IntN(9) {
		if m.rng.IntN(9) == 0 {
			tags = m.tags()
		}
		if tags.Key != "" {
			m.putKeyed(putTags(name, tags))
		} else {
			ops = append(ops, putTags(name, tags))
		}
	}
	storage.DoWait(m.s, ops)
	for i := range ops {
		a := &ops[i].Answer
		if a.Err != nil {
			m.t.Fatalf("%+v", *a)
		}
		if a.Outcome == tube.PutNew {
			m.put[ops[i].Args.Tags.Batch]++
		}
	}
}

// putKeyed puts a job with a key. One that takes the place of a member of the same batch does not count.
func (m *membersTest) putKeyed(op storage.Op) {
	tags := op.Args.Tags
	old := do(m.s, storage.Op{Kind: storage.PeekKey, Tube: op.Tube, Args: &storage.Args{Key: tags.Key}}).ID
	before := do(m.s, storage.Op{Kind: storage.JobStats, ID: old})
	a := do(m.s, op)
	if a.Err != nil {
		m.t.Fatalf("%+v", a)
	}
	gone := do(m.s, storage.Op{Kind: storage.JobStats, ID: old}).NotFound
	if a.Outcome == tube.PutNew && (before.NotFound || !gone || before.Job.Metadata.Batch != tags.Batch) {
		m.put[tags.Batch]++
	}
}

// delete deletes a job, and counts it if it is a member.
func (m *membersTest) delete(op storage.Op) {
	j := do(m.s, storage.Op{Kind: storage.JobStats, ID: op.ID})
	if a := do(m.s, op); a.NotFound || a.Err != nil {
		return
	}
	if j.NotFound {
		m.t.Fatalf("job %d was deleted, and was not there", op.ID)
	}
	if j.Job.Metadata != nil {
		m.done[j.Job.Metadata.Batch]++
	}
}

// anyJob returns a job of a tube in a state; 0 if there is none.
func (m *membersTest) anyJob(in tube.State) uint64 {
	a := do(m.s, storage.Op{Kind: storage.ListJobs, Tube: m.tube(), State: in, MaxJobs: 50})
	if a.Err != nil {
		m.t.Fatal(a.Err)
	}
	if len(a.Result.Jobs) == 0 {
		return 0
	}
	return a.Result.Jobs[m.rng.IntN(len(a.Result.Jobs))].ID
}

func (m *membersTest) step() {
	waiting := []tube.State{tube.Ready, tube.Delayed, tube.Buried}[m.rng.IntN(3)]
	switch m.rng.IntN(16) {
	case 0, 1, 2:
		m.puts()
	case 3, 4:
		op := takeOf(1, m.tubes...)
		if a := do(m.s, op); a.ID != 0 {
			m.mine[a.ID] = true
		}
	case 5:
		if a := do(m.s, takeOf(tube.LeaseHolder, m.tube())); a.ID != 0 {
			m.lease[a.ID] = a.Result.Lease
		}
	case 6, 7:
		for id := range m.mine {
			delete(m.mine, id)
			switch kind := []tube.Move{tube.Delete, tube.Release, tube.Bury}[m.rng.IntN(3)]; kind {
			case tube.Delete:
				m.delete(move(kind, 1, id))
			default:
				do(m.s, move(kind, 1, id))
			}
			break
		}
		for id, token := range m.lease {
			delete(m.lease, id)
			m.delete(deleteLeased(id, token))
			break
		}
	case 8:
		if id := m.anyJob(waiting); id != 0 {
			m.delete(move(tube.Delete, 2, id))
		}
	case 9:
		do(m.s, storage.Op{Kind: storage.Kick, Tube: m.tube(), MaxJobs: uint32(m.rng.IntN(4))})
	case 10:
		if id := m.anyJob(waiting); id != 0 {
			kind := []tube.Move{tube.KickJob, tube.ReserveJob}[m.rng.IntN(2)]
			if a := do(m.s, move(kind, 1, id)); !a.NotFound && kind == tube.ReserveJob {
				m.mine[id] = true
			}
		}
	case 11:
		moveJobsOf(m.s, m.tube(), waiting, m.tube(), uint32(m.rng.IntN(9)))
	case 12:
		if m.rng.IntN(4) == 0 {
			flushOf(m.s, m.tube(), m.state())
		}
		do(m.s, storage.Op{Kind: storage.DeleteKey, Tube: m.tube(), Args: &storage.Args{Key: fmt.Sprint("key", m.rng.IntN(3))}})
	case 13:
		if id := m.anyJob(waiting); id != 0 {
			do(m.s, storage.Op{Kind: storage.Replay, ID: id})
		}
	case 14:
		m.s.TickAll()
	case 15:
		settle(m.t, m.s, "c", tube.Verdict(m.rng.IntN(int(tube.LastVerdict)+1)), uint32(m.rng.IntN(9)))
	}
}

// allSent returns whether no job is on its way to another partition.
func (m *membersTest) allSent() bool {
	var n int64
	for _, p := range m.s.parts {
		n += m.client.HLen(m.t.Context(), p.prefix+"pending").Val()
	}
	return n == 0
}

// check compares the sums of the batches with what was counted, and with what is there.
func (m *membersTest) check() {
	m.t.Helper()
	for end := time.Now().Add(patient); !m.allSent() && time.Now().Before(end); {
		m.s.TickAll()
	}
	for _, name := range []string{"a", "b"} {
		sum, members := batchSum(m.t, m.s, name), membersOf(m.t, m.s, name)
		if total := sum.Pending + sum.Parked + sum.Done + sum.Gone; total != m.put[name] || sum.Done != m.done[name] || sum.Pending+sum.Parked != uint64(len(members)) {
			m.t.Errorf("%s: %d were put, %d deleted, %d exist: %+v", name, m.put[name], m.done[name], len(members), sum)
		}
	}
}
