package storetest

import (
	"bytes"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

func (b *harness) setPolicy(name string, p *tube.Policy) {
	b.Helper()
	if b.do(storage.Op{Kind: storage.SetPolicy, Tube: name, Args: &storage.Args{Policy: p}}).NotFound {
		b.Fatalf("setting a policy of tube %s: not found", name)
	}
}

// policy returns the policy of a tube, nil if it has none.
func (b *harness) policy(name string) *tube.Policy {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.GetPolicy, Tube: name})
	if a.NotFound {
		return nil
	}
	return a.Result.Policy
}

// fullPolicy returns a policy in which everything is set.
func fullPolicy() *tube.Policy {
	return &tube.Policy{
		Rules: tube.Rules{
			Retry:  []time.Duration{0, time.Second, 1500 * time.Millisecond, 10 * 365 * 24 * time.Hour},
			Jitter: tube.JitterOf(100), OnExpire: tube.ExpirePark,
			Max: 1000000, Dead: "morgue", KeyTTL: 36 * time.Hour, HasKeyTTL: true,
		},
		Expire:      tube.LifetimeOf(10 * 365 * 24 * time.Hour),
		OnDuplicate: tube.Fail, QuotaJobs: 1 << 40, HasQuotaJobs: true, QuotaBytes: 1 << 50, HasQuotaBytes: true,
		Push: tube.Push{
			URL: "https://example.org:8443/hook/max:1?retry:1,2=a%20b&push-calls:3", Concurrency: 10_000,
			Timeout: 1500 * time.Millisecond, Rate: 1_000_000, RateEvery: time.Hour,
		},
	}
}

// testPolicies sets, reads, lists and removes policies, of tubes that need not exist.
func testPolicies(b *harness) {
	none := &tube.Policy{QuotaJobs: 0, HasQuotaJobs: true}
	b.setPolicy("b", fullPolicy())
	b.setPolicy("a", none)
	b.setPolicy("c", fullPolicy())
	if got := b.policy("b"); !reflect.DeepEqual(got, fullPolicy()) {
		b.Errorf("a policy was read as %+v", got)
	}
	if got := b.policy("a"); !reflect.DeepEqual(got, none) {
		b.Errorf("a policy was read as %+v", got)
	}
	b.setPolicy("c", none)
	if got := b.policy("c"); !reflect.DeepEqual(got, none) {
		b.Errorf("a replaced policy was read as %+v", got)
	}
	b.setPolicy("b", nil)
	b.setPolicy("never", nil)
	if b.policy("b") != nil || b.policy("never") != nil {
		b.Error("a removed policy still exists")
	}
	if got := b.do(storage.Op{Kind: storage.Policies}).Names; !slices.Equal(got, []string{"a", "c"}) {
		b.Errorf("the tubes with a policy are %v", got)
	}
	if got := b.tubes(); !slices.Equal(got, []string{"default"}) {
		b.Errorf("policies have created tubes: %v", got)
	}
	b.put("b", 1)
	b.must(tube.Delete, 1, 1)
	if !b.refused(storage.Op{Kind: storage.Put, Tube: "a"}) {
		b.Error("a policy is gone with the jobs of its tube")
	}
}

// testPolicyRules: a policy applies where a job's own tags say nothing, even if the job was put
// before.
func testPolicyRules(b *harness) {
	plain, own := b.put("t", 5), b.putNew("t", tube.Tags{Rules: tube.Rules{Retry: []time.Duration{70 * time.Second}}})
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Retry: []time.Duration{20 * time.Second}, Max: 2}})
	b.wantTake(1, "t", plain, own)
	b.must(tube.Release, 1, plain)
	b.must(tube.Release, 1, own)
	b.wantDue("by the policy", plain, 20*time.Second, 20)
	b.wantDue("by its own tag", own, 70*time.Second, 70)
	if s := b.job(own); s.Rules.Max != 2 || s.Metadata.Max != 0 || len(s.Rules.Retry) != 1 || s.Rules.Retry[0] != 70*time.Second {
		b.Errorf("the rules that apply to it: %+v, %+v", s.Rules, s.Metadata)
	}
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Retry: []time.Duration{0, 0, 0}}})
	for range 2 { // failures 2 and 3
		b.must(tube.ReserveJob, 1, plain)
		b.must(tube.Release, 1, plain)
	}
	if s := b.job(plain); s.State != tube.Ready {
		b.Errorf("after the policy was changed: %+v", s)
	}
	b.must(tube.ReserveJob, 1, plain)
	b.must(tube.Release, 1, plain)
	b.wantRetries("after its last failure", plain, tube.Buried, tube.ParkedRetries, 4, 4)
	b.setPolicy("t", nil)
	b.must(tube.KickJob, 1, plain)
	for range 5 {
		b.must(tube.ReserveJob, 1, plain)
		b.must(tube.Release, 1, plain)
	}
	b.wantTake(1, "t", plain)
	b.setPolicy("u", &tube.Policy{Rules: tube.Rules{Max: 1}})
	late := b.do(storage.Op{Kind: storage.Put, Tube: "u", TTR: 5}).ID
	b.must(tube.ReserveJob, 1, late)
	b.advance(6 * time.Second)
	b.wantRetries("after its TTR", late, tube.Buried, tube.ParkedDeliveries, 1, 1)
}

// testPolicyKeys checks the settings of a policy about keys.
func testPolicyKeys(b *harness) {
	key := tube.Tags{Key: "k"}
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{KeyTTL: 20 * time.Second, HasKeyTTL: true}, OnDuplicate: tube.Fail})
	id := b.putNew("t", key)
	b.wantPut("t", key, tube.PutDuplicate, id, tube.Ready)
	b.wantPut("t", tube.Tags{Key: "k", OnDuplicate: tube.Keep}, tube.PutExisting, id, tube.Ready)
	b.must(tube.Delete, 1, id)
	b.wantPut("t", key, tube.PutDuplicate, id, tube.Gone)
	b.advance(21 * time.Second)
	id = b.putNew("t", tube.Tags{Key: "k", Rules: tube.Rules{HasKeyTTL: true}}) // no key-ttl for this one
	b.must(tube.Delete, 1, id)
	id = b.putNew("t", key)
	b.setPolicy("t", &tube.Policy{OnDuplicate: tube.Replace})
	next := b.putNew("t", key)
	if b.job(id).State != tube.Gone {
		b.Error("not replaced")
	}
	b.must(tube.Delete, 1, next)
	b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Fail})
}

// testQuotas: quotas refuse puts, and nothing else.
func testQuotas(b *harness) {
	put := func(size int, tags *tube.Tags) bool {
		op := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: bytes.Repeat([]byte("x"), size)}
		if tags != nil {
			op.Args = &storage.Args{Tags: tags}
		}
		return !b.refused(op)
	}
	key := func(k string, onDuplicate tube.OnDuplicate) *tube.Tags {
		return &tube.Tags{Key: k, OnDuplicate: onDuplicate}
	}
	b.setPolicy("t", &tube.Policy{QuotaJobs: 3, HasQuotaJobs: true, QuotaBytes: 10, HasQuotaBytes: true})
	for i, c := range []struct {
		size int
		tags *tube.Tags
		want bool
	}{
		{4, key("a", tube.Keep), true}, {7, nil, false}, {7, key("b", tube.Keep), false}, {6, key("b", tube.Keep), true},
		{1, nil, false}, {0, nil, true}, {0, nil, false}, {0, key("c", tube.Keep), false},
		{9, key("a", tube.Keep), true}, // the job with the key stays
		{5, key("a", tube.Replace), false}, {3, key("a", tube.Replace), true}, {4, key("a", tube.Replace), true},
	} {
		if got := put(c.size, c.tags); got != c.want {
			b.Fatalf("put %d was admitted: %v, want %v", i, got, c.want)
		}
	}
	b.setPolicy("t", &tube.Policy{QuotaJobs: 1, HasQuotaJobs: true})
	id := b.take(1, "t")
	b.must(tube.Release, 1, id)
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Bury, 1, id)
	b.must(tube.KickJob, 1, id)
	dead := b.putNew("u", tube.Tags{Rules: tube.Rules{Max: 1, Dead: "t"}})
	b.wantTake(1, "u", dead)
	b.must(tube.Release, 1, dead)
	b.awaitSent(dead)
	if s := b.tube("t"); s.Ready != 4 {
		b.Errorf("beyond its quota: %+v", s)
	}
	b.setPolicy("t", nil)
	if !put(100, nil) {
		b.Error("refused without a policy")
	}
}
