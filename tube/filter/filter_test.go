package filter

import (
	"maps"
	"testing"
	"time"
)

var at = time.UnixMilli(1_795_000_000_000)

func aJob() *Job {
	return &Job{ID: 4711, FromID: 12, Key: "order-7", Group: "customer-4711", Batch: "import", Schedule: "nightly", Reason: "Card_Declined by bank",
		Meta: maps.All(map[string]string{"team": "billing", "region": "eu"}), Attempts: 3, At: at}
}

// TestFields: each field of a filter decides alone, and all must hold.
func TestFields(t *testing.T) {
	yes := []Filter{{}, {Group: "customer-4711"}, {Key: "order-7"}, {Batch: "import"}, {Schedule: "nightly"}, {Reason: "card_declined"}, {WholeReason: "Card_Declined by bank"},
		{Since: at, Until: at}, {Attempts: 3}, {Meta: map[string]string{"team": "billing", "region": "eu"}}, {Group: "customer-4711", Key: "order-7"}}
	no := []Filter{{Group: "customer-47"}, {Key: "order"}, {Batch: "imp"}, {Schedule: "night"}, {Reason: "timeout"}, {WholeReason: "Card_Declined"},
		{Since: at.Add(1)}, {Until: at.Add(-1)}, {Attempts: 4}, {Meta: map[string]string{"team": "eu"}}, {Group: "customer-4711", Key: "order-8"}}
	for _, f := range yes {
		if verdict, in := New(f).Properties(aJob()); verdict != Yes || in != Nowhere {
			t.Errorf("%+v: %d in %q", f, verdict, in)
		}
	}
	for _, f := range no {
		if verdict, _ := New(f).Properties(aJob()); verdict != No {
			t.Errorf("%+v: %d", f, verdict)
		}
	}
	if verdict, _ := New(Filter{Batch: "first"}).Properties(&Job{After: "first"}); verdict != Yes {
		t.Error("a job after the batch is not found")
	}
}

// TestText: a text is found in each property and in the body, in the order of the places, and as an id only as a whole.
func TestText(t *testing.T) {
	for text, want := range map[string]Found{"4711": InID, "12": InID, "ORDER": InKey, "customer-": InGroup, "mport": InBatch, "nightly": InSchedule, "BILL": InMeta, "regio": InMeta, "declined": InReason} {
		if verdict, in := New(Filter{Text: text}).Properties(aJob()); verdict != Yes || in != want {
			t.Errorf("%s: %d in %q, want %q", text, verdict, in, want)
		}
	}
	m := New(Filter{Text: "471"})
	j := aJob()
	j.Group = ""
	if verdict, _ := m.Properties(j); verdict != BodySays {
		t.Errorf("a part of the id: %d", verdict)
	}
	if matches, in, at := m.BodyOf([]byte("for 4711"), Nowhere); !matches || in != InBody || at != 4 {
		t.Error(matches, in, at)
	}
	if matches, _, _ := m.BodyOf([]byte("for 4811"), Nowhere); matches {
		t.Error("found in another body")
	}
	both := New(Filter{Text: "order-7", Body: "eur"})
	if verdict, in := both.Properties(aJob()); verdict != BodySays || in != InKey {
		t.Error(verdict, in)
	}
	if matches, in, _ := both.BodyOf([]byte("7 EUR"), InKey); !matches || in != InKey {
		t.Error(matches, in)
	}
	if matches, _, _ := both.BodyOf([]byte("order-7"), InKey); matches {
		t.Error("a text in the key replaces the body")
	}
}

// TestBodies: text is found in JSON strings as they read, and JSON by its value.
func TestBodies(t *testing.T) {
	for _, c := range []struct {
		want, body string
		found      bool
	}{
		{"needle", "a NEEDLE", true}, {"needle", "a needl", false}, {"\xff", "a\xffb", true},
		{"müller", `{"name":"M\u00fcller"}`, true}, {"müller", `{"M\u00fcller":1}`, true}, {"müller", `["a\n"]`, false}, {"müller", `M\u00fcller`, false},
		{`{"customer": 4711}`, `{"id":1,"customer":4711}`, true}, {`{"customer": 4711}`, `{"of":[{"customer":4.711e3}]}`, true},
		{`{"customer": 4711}`, `{"customer":"4711"}`, false}, {`{"customer": 4711}`, `{"customer":47110}`, false}, {`{"customer": 4711}`, `{"customer":4711} and more`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`{"a":1,"b":2}`, `{"b":2}`, false}, {`{"a":{"b":[2]}}`, `{"a":{"b":[1,2,3],"c":0}}`, true}, {`[2,1]`, `{"x":[1,2]}`, true}, {`[2,4]`, `[1,2]`, false},
		{`{"a":null}`, `{"a": null}`, true}, {`{"a":null}`, `{"b": 1}`, false}, {`{"a":true}`, `{"a": true}`, true}, {`{"a":"\u00e9"}`, `{"a": "é"}`, true},
		{`[error]`, `it says [error]`, true}, {`{}`, `{"a":1}`, true}, {`{}`, `[1]`, false},
	} {
		m := New(Filter{Body: c.want})
		if found, _, _ := m.BodyOf([]byte(c.body), Nowhere); found != c.found {
			t.Errorf("%s in %s: %v", c.want, c.body, found)
		}
	}
}

// TestNumbers: numbers are equal if their values are, without rounding, and at once for huge exponents.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{"1", "1.0", true}, {"100", "1e2", true}, {"-0", "0", true}, {"0.001", "1E-3", true}, {"10", "1", false}, {"-1", "1", false}, {"0.10", "0.1", true}, {"0.01", "0.1", false},
		{"9007199254740993", "9007199254740992", false}, {"9007199254740993", "9007199254740993.0", true}, {"1e999999999", "1e999999998", false},
	} {
		if found, _, _ := New(Filter{Body: "[" + c.a + "]"}).BodyOf([]byte("[ "+c.b+" ]"), Nowhere); found != c.equal {
			t.Errorf("%s and %s: %v", c.a, c.b, found)
		}
	}
}
