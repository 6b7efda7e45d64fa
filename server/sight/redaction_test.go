package sight

import (
	"strings"
	"testing"

	"redstalk/protocol"
	"redstalk/tube"
)

func parse(t testing.TB, pointers string) *Redaction {
	t.Helper()
	r, err := ParseRedaction(pointers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestJSON: only the values at the pointers are replaced; all else stays byte for byte.
func TestJSON(t *testing.T) {
	t.Parallel()
	r := parse(t, "/card/number, /email,/items/*/name,/list/1,/a~1b/~0c/~2,/deep/*/*")
	for text, want := range map[string]string{
		`{"email":"x@y","n":12345678901234567890.10,"z":1,"a":2}`:                     `{"email":"[redacted]","n":12345678901234567890.10,"z":1,"a":2}`,
		" { \"z\" : 1e400 ,\r\n\t\"email\" : { \"a\" : [ 1 , 2 ] } , \"b\" : null } ": " { \"z\" : 1e400 ,\r\n\t\"email\" : \"[redacted]\" , \"b\" : null } ",
		`{"card":{"number":4111111111111111,"holder":"A"},"number":7}`:                `{"card":{"number":"[redacted]","holder":"A"},"number":7}`,
		`{"card":"none"}`:                                   `{"card":"none"}`,
		`{"card":[{"number":1}]}`:                           `{"card":[{"number":1}]}`,
		`{"items":[{"name":"a","id":1},{"id":2,"name":3}]}`: `{"items":[{"name":"[redacted]","id":1},{"id":2,"name":"[redacted]"}]}`,
		`{"list":[1,2,3]}`:                                  `{"list":[1,"[redacted]",3]}`,
		`{"list":{"1":2}}`:                                  `{"list":{"1":"[redacted]"}}`,
		`{"a/b":{"~c":{",":1}}}`:                            `{"a/b":{"~c":{",":"[redacted]"}}}`,
		`{"deep":{"x":{"y":1,"z":[2]},"v":3}}`:              `{"deep":{"x":{"y":"[redacted]","z":"[redacted]"},"v":3}}`,
		`{"em\u0061il":"x"}`:                                `{"em\u0061il":"[redacted]"}`,
		`{"email":"x","email":"y"}`:                         `{"email":"[redacted]","email":"[redacted]"}`,
		"{\"email\":\"\xff\"}":                              `{"email":"[redacted]"}`,
		"{\"topic\":\"t\"}\n{\"email\":\"x\"}\n":            "{\"topic\":\"t\"}\n{\"email\":\"[redacted]\"}\n",
		"\uFEFF{\"email\":1}":                               "\uFEFF{\"email\":\"[redacted]\"}",
		`["email"]`:                                         `["email"]`, `[]`: `[]`, `{}`: `{}`, ``: ``, ` `: ` `, `"{}"`: `"{}"`, `email`: `email`, "\x1f\x8b": "\x1f\x8b",
		`{"email":"x"`: Redacted, `{"email":"x"} and more`: Redacted, `{'email':'x'}`: Redacted, `[{"email":"x"]`: Redacted, `{"a":1}{`: Redacted, `[1,`: Redacted,
		`500 {"email":"x"}`: `500 {"email":"[redacted]"}`, "null\n\"a\\\"b\"{\"email\":1}": "null\n\"a\\\"b\"{\"email\":\"[redacted]\"}",
		"\uFEFF\uFEFF{\"email\":1}": "\uFEFF\uFEFF{\"email\":\"[redacted]\"}", "\x00\x0B\x0C\x1E\u00A0{\"email\":1}": "\x00\x0B\x0C\x1E\u00A0{\"email\":\"[redacted]\"}",
		"\xFF\xFE{\x00\"\x00": Redacted, "\xFE\xFF\x00{\x00\"": Redacted, `[NaN,{"email":1}]`: Redacted, `[Infinity,{}]`: Redacted, `[ None, {'email': 'x'}]`: Redacted, `['x', {}]`: Redacted,
		`500 Server Error`: `500 Server Error`, `404 [nginx]`: `404 [nginx]`, `[Nonesuch]`: `[Nonesuch]`, `"a" and {"email":1}`: `"a" and {"email":1}`, "1 2 3": "1 2 3",
		`[Errno 111] refused`: `[Errno 111] refused`, strings.Repeat("[", 20000): Redacted,
	} {
		in := []byte(text)
		if got := string(r.JSON(in)); got != want || string(in) != text {
			t.Errorf("%.80q: %.80q, want %.80q", text, got, want)
		}
	}
	if got := (*Redaction)(nil).JSON([]byte(`{"email":1}`)); string(got) != `{"email":1}` {
		t.Errorf("without a redaction: %s", got)
	}
}

func TestParseRedaction(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "email", "/email,", "/a~", "/a~3", "card/number", "#/email", "/,x"} {
		if _, err := ParseRedaction(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// TestSights: what is shown of a job, of a record and of a schedule follows from the rights.
func TestSights(t *testing.T) {
	t.Parallel()
	r := parse(t, "/email")
	const full, cut = `{"email":"x"}`, `{"email":"[redacted]"}`
	meta := []tube.Meta{{Name: "email", Value: "x"}, {Name: "order", Value: full}}
	notes := &tube.Notes{Meta: meta, Reason: full, Trace: "t", Attempts: []tube.Attempt{{How: tube.FailedByRelease, Holder: "h", Reason: full}}}
	job := &tube.JobStats{ID: 1, Metadata: &tube.Metadata{Key: "k", Progress: full, Notes: notes}}
	record := &tube.Ended{ID: 1, Key: "k", Meta: meta, Reason: full, Result: []byte(full)}
	set := &tube.Schedule{Name: "s", Body: []byte(full), Tags: &tube.Tags{Key: "k", Meta: meta}}
	const list, read, work, admin = protocol.MayList, protocol.MayList | protocol.MayRead, protocol.MayWork, protocol.MayAdmin
	for _, c := range []struct {
		rights                       protocol.Right
		text, email, checkpoint, set string
	}{
		{list, "", "", "", ""}, {list | admin, "", "", "", full}, {read, cut, Redacted, cut, cut}, {read | work, cut, Redacted, full, cut}, {list | work, "", "", full, ""}, {read | admin, full, "x", full, full},
	} {
		s := Of(c.rights, r)
		j, e, of := s.Job(job), s.Ended(record), s.Schedule(set)
		n := j.Metadata.Notes
		if j.ID != 1 || j.Metadata.Key != "k" || n.Trace != "t" || n.Attempts[0].Holder != "h" || e.Key != "k" || of.Name != "s" || of.Tags.Key != "k" {
			t.Errorf("%v: properties are missing", c.rights)
		}
		for _, got := range []string{j.Metadata.Progress, n.Reason, n.Attempts[0].Reason, e.Reason, string(e.Result), string(s.Body([]byte(full)))} {
			if got != c.text {
				t.Errorf("%v: %q, want %q", c.rights, got, c.text)
			}
		}
		if len(n.Meta) != len(e.Meta) || len(n.Meta) > 0 && (n.Meta[0].Value != c.email || n.Meta[1].Value != c.text) || len(n.Meta) == 0 && c.text != "" {
			t.Errorf("%v: %v", c.rights, n.Meta)
		}
		if got := string(s.Checkpoint([]byte(full))); got != c.checkpoint {
			t.Errorf("%v: checkpoint %q, want %q", c.rights, got, c.checkpoint)
		}
		if string(of.Body) != c.set || (len(of.Tags.Meta) > 0) != (c.set != "") {
			t.Errorf("%v: schedule %q %v, want %q", c.rights, of.Body, of.Tags.Meta, c.set)
		}
	}
	if notes.Reason != full || meta[0].Value != "x" || string(record.Result) != full {
		t.Error("what the store has answered was changed")
	}
	if Of(read, nil).Job(job) != job || Full.Ended(record) != record {
		t.Error("a copy although nothing is hidden")
	}
}

func BenchmarkJSON(b *testing.B) {
	r := parse(b, "/card/number,/email")
	body := []byte(`{"order":1234567890123,"email":"somebody@example.org","card":{"number":"4111111111111111","holder":"Some Body"},"items":[` + strings.Repeat(`{"sku":"abc","n":1,"price":12.50},`, 100) + `{}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.JSON(body)
	}
}
