package schema

import (
	"reflect"
	"testing"
	"time"

	"redstalk/tube"
)

// fullPolicy has a value in every field.
var fullPolicy = &tube.Policy{
	Rules: tube.Rules{
		Retry: []time.Duration{time.Second, 2 * time.Second}, Doubled: 9, Jitter: tube.JitterOf(10), Max: 5, Dead: "graveyard",
		KeyTTL: time.Second, HasKeyTTL: true, OnExpire: tube.ExpirePark,
	},
	Expire: tube.LifetimeOf(time.Second), OnDuplicate: tube.Replace,
	QuotaJobs: 10, HasQuotaJobs: true, QuotaBytes: 4096, HasQuotaBytes: true,
	Limits: tube.Limits{Concurrency: 50, Rates: tube.Rates{200, 0, 0}}, GroupLimits: tube.Limits{Concurrency: 3, Rates: tube.Rates{0, 100, 1000}},
	GroupOrder: tube.Strict,
	Push:       tube.Push{URL: "https://example.org/hook", Concurrency: 8, Timeout: 3 * time.Second, Rate: 100, RateEvery: time.Second},
}

// TestPolicyText checks the text that released versions have in their data: it must never change.
func TestPolicyText(t *testing.T) {
	const want = "retry:1000,2000 doubled:9 jitter:10 max:5 dead:graveyard key-ttl:1000 expire:1000 on-expire:2 on-duplicate:2 quota-jobs:10 " +
		"quota-bytes:4096 concurrency:50 rate:200,0,0 group-concurrency:3 group-rate:0,100,1000 group-order:2 push:https://example.org/hook " +
		"push-calls:8 push-timeout:3000 push-rate:100 push-every:1000"
	for text, p := range map[string]*tube.Policy{
		want: fullPolicy, "": nil, " ": {},
		"jitter:0 key-ttl:0 expire:0 quota-jobs:0 quota-bytes:0": {
			Rules: tube.Rules{Jitter: tube.JitterOf(0), HasKeyTTL: true}, Expire: tube.LifetimeOf(0), HasQuotaJobs: true, HasQuotaBytes: true,
		},
	} {
		if got := TextOfPolicy(p); got != text {
			t.Errorf("the text is\n%s\nwant\n%s", got, text)
		}
		if got, err := ParsePolicy(text); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"jiter:10", "max:x", "retry:1,x", "rate:1"} {
		if p, err := ParsePolicy(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}
