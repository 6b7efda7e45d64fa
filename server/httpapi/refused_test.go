package httpapi

import (
	"strings"
	"testing"
)

var (
	octets = "Content-Type: application/octet-stream"
	none   = "Content-Type: "
)

// refusedRequests are invalid requests with the expected status, the code, and a part of the detail.
var refusedRequests = map[string]struct {
	method, path, body string
	headers            []string
	status             int
	code, detail       string
}{
	"no JSON":              {"POST", "/v1/tubes/t/jobs", `hello`, nil, 400, "BAD_FORMAT", "not JSON"},
	"half JSON":            {"POST", "/v1/tubes/t/jobs", `{"body":"x"`, nil, 400, "BAD_FORMAT", "not JSON"},
	"more than JSON":       {"POST", "/v1/tubes/t/jobs", `{"body":"x"}{}`, nil, 400, "BAD_FORMAT", "not JSON"},
	"empty":                {"POST", "/v1/tubes/t/jobs", ``, nil, 400, "BAD_FORMAT", "not JSON"},
	"invalid UTF-8":        {"POST", "/v1/tubes/t/jobs", "{\"body\":\"\xff\"}", nil, 400, "BAD_FORMAT", "UTF-8"},
	"half a surrogate":     {"POST", "/v1/tubes/t/jobs", `{"body":"\ud800"}`, nil, 400, "BAD_FORMAT", "surrogate"},
	"field twice":          {"POST", "/v1/tubes/t/jobs", `{"body":"x","body":"y"}`, nil, 400, "BAD_FORMAT", "duplicate"},
	"not an object":        {"POST", "/v1/tubes/t/jobs", `[1]`, nil, 422, "BAD_FORMAT", "array"},
	"unknown field":        {"POST", "/v1/tubes/t/jobs", `{"body":"x","dealy":5}`, nil, 422, "BAD_FORMAT", "dealy"},
	"field in capitals":    {"POST", "/v1/tubes/t/jobs", `{"Body":"x"}`, nil, 422, "BAD_FORMAT", "Body"},
	"no body":              {"POST", "/v1/tubes/t/jobs", `{"ttr":5}`, nil, 422, "BAD_FORMAT", "body: it is missing"},
	"two bodies":           {"POST", "/v1/tubes/t/jobs", `{"body":"x","body_base64":"eA=="}`, nil, 422, "BAD_FORMAT", "body_base64"},
	"no base64":            {"POST", "/v1/tubes/t/jobs", `{"body_base64":"%"}`, nil, 422, "BAD_FORMAT", "body_base64"},
	"priority negative":    {"POST", "/v1/tubes/t/jobs", `{"body":"x","priority":-1}`, nil, 422, "BAD_FORMAT", "priority"},
	"priority too large":   {"POST", "/v1/tubes/t/jobs", `{"body":"x","priority":4294967296}`, nil, 422, "BAD_FORMAT", "priority"},
	"priority not whole":   {"POST", "/v1/tubes/t/jobs", `{"body":"x","priority":1.5}`, nil, 422, "BAD_FORMAT", "priority"},
	"delay negative":       {"POST", "/v1/tubes/t/jobs", `{"body":"x","delay":-1}`, nil, 422, "BAD_FORMAT", "delay"},
	"delay too long":       {"POST", "/v1/tubes/t/jobs", `{"body":"x","delay":"3651d"}`, nil, 422, "BAD_FORMAT", "delay"},
	"delay is a list":      {"POST", "/v1/tubes/t/jobs", `{"body":"x","delay":[]}`, nil, 422, "BAD_FORMAT", "delay"},
	"delay and at":         {"POST", "/v1/tubes/t/jobs", `{"body":"x","delay":1,"at":1}`, nil, 422, "BAD_FORMAT", "at:"},
	"at negative":          {"POST", "/v1/tubes/t/jobs", `{"body":"x","at":-1}`, nil, 422, "BAD_FORMAT", "at:"},
	"at beyond reason":     {"POST", "/v1/tubes/t/jobs", `{"body":"x","at":9223372036854}`, nil, 422, "BAD_FORMAT", "at:"},
	"ttr 0":                {"POST", "/v1/tubes/t/jobs", `{"body":"x","ttr":0}`, nil, 422, "BAD_FORMAT", "ttr"},
	"ttr not whole":        {"POST", "/v1/tubes/t/jobs", `{"body":"x","ttr":"1500ms"}`, nil, 422, "BAD_FORMAT", "ttr"},
	"key with a space":     {"POST", "/v1/tubes/t/jobs", `{"body":"x","key":"a b"}`, nil, 422, "BAD_FORMAT", "key"},
	"key empty":            {"POST", "/v1/tubes/t/jobs", `{"body":"x","key":""}`, nil, 422, "BAD_FORMAT", "key"},
	"key too long":         {"POST", "/v1/tubes/t/jobs", `{"body":"x","key":"` + strings.Repeat("k", 129) + `"}`, nil, 422, "BAD_FORMAT", "key"},
	"unknown word":         {"POST", "/v1/tubes/t/jobs", `{"body":"x","on_duplicate":"drop"}`, nil, 422, "BAD_FORMAT", "on_duplicate"},
	"retry empty":          {"POST", "/v1/tubes/t/jobs", `{"body":"x","retry":[]}`, nil, 422, "BAD_FORMAT", "retry"},
	"retry too long":       {"POST", "/v1/tubes/t/jobs", `{"body":"x","retry":[1` + strings.Repeat(",1", 32) + `]}`, nil, 422, "BAD_FORMAT", "retry"},
	"max 0":                {"POST", "/v1/tubes/t/jobs", `{"body":"x","max":0}`, nil, 422, "BAD_FORMAT", "max"},
	"dead no tube":         {"POST", "/v1/tubes/t/jobs", `{"body":"x","dead":"-x"}`, nil, 422, "BAD_FORMAT", "dead"},
	"too big":              {"POST", "/v1/tubes/t/jobs", `{"body":"` + strings.Repeat("x", 1001) + `"}`, nil, 413, "JOB_TOO_BIG", ""},
	"far too big":          {"POST", "/v1/tubes/t/jobs", strings.Repeat(" ", 70_000), nil, 413, "JOB_TOO_BIG", "67536"},
	"JSON and query":       {"POST", "/v1/tubes/t/jobs?ttr=5", `{"body":"x"}`, nil, 422, "BAD_FORMAT", "query"},
	"raw too big":          {"POST", "/v1/tubes/t/jobs", strings.Repeat("x", 1001), []string{octets}, 413, "JOB_TOO_BIG", "1000"},
	"raw, unknown":         {"POST", "/v1/tubes/t/jobs?dealy=5", "x", []string{octets}, 422, "BAD_FORMAT", "dealy"},
	"raw, twice":           {"POST", "/v1/tubes/t/jobs?ttr=5&ttr=6", "x", []string{octets}, 422, "BAD_FORMAT", "ttr"},
	"raw, wrong number":    {"POST", "/v1/tubes/t/jobs?priority=x", "x", []string{octets}, 422, "BAD_FORMAT", "priority"},
	"raw, wrong at":        {"POST", "/v1/tubes/t/jobs?at=soon", "x", []string{octets}, 422, "BAD_FORMAT", `at: "soon" is not a time: a whole number of milliseconds`},
	"raw, wrong retry":     {"POST", "/v1/tubes/t/jobs?retry=1,x", "x", []string{octets}, 422, "BAD_FORMAT", "retry"},
	"raw, as a form":       {"POST", "/v1/tubes/t/jobs", "x", []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "UNSUPPORTED", "X-Redstalk"},
	"raw, as text":         {"POST", "/v1/tubes/t/jobs", "x", []string{"Content-Type: text/plain; charset=utf-8"}, 415, "UNSUPPORTED", "X-Redstalk"},
	"raw, no type":         {"POST", "/v1/tubes/t/jobs", "x", []string{none}, 415, "UNSUPPORTED", "X-Redstalk"},
	"raw, no type at all":  {"POST", "/v1/tubes/t/jobs", "x", []string{"Content-Type: ;;"}, 415, "UNSUPPORTED", "X-Redstalk"},
	"no tube":              {"POST", "/v1/tubes/-t/jobs", `{"body":"x"}`, nil, 422, "BAD_FORMAT", "tube"},
	"tube with a space":    {"POST", "/v1/tubes/a%20b/jobs", `{"body":"x"}`, nil, 422, "BAD_FORMAT", "tube"},
	"tube too long":        {"POST", "/v1/tubes/" + strings.Repeat("t", 201) + "/jobs", `{"body":"x"}`, nil, 422, "BAD_FORMAT", "tube"},
	"empty tube":           {"POST", "/v1/tubes//jobs", `{"body":"x"}`, nil, 404, "NOT_FOUND", "%2F"},
	"path with dots":       {"POST", "/v1/tubes/t/../u/jobs", `{"body":"x"}`, nil, 404, "NOT_FOUND", "%2E"},
	"slash at the end":     {"POST", "/v1/tubes/t/jobs/", `{"body":"x"}`, nil, 404, "NOT_FOUND", ""},
	"no such path":         {"GET", "/v2/tubes", "", nil, 404, "NOT_FOUND", "/docs"},
	"no such method":       {"PATCH", "/v1/tubes/t/jobs", "", nil, 405, "UNSUPPORTED", "POST"},
	"broken query":         {"POST", "/v1/reserve?tube=a;b", "", nil, 400, "BAD_FORMAT", "%3B"},
	"broken escape":        {"POST", "/v1/reserve?tube=%zz", "", nil, 400, "BAD_FORMAT", "query"},
	"reserve, no tube":     {"POST", "/v1/reserve?tube=a+b", "", nil, 422, "BAD_FORMAT", "tube"},
	"reserve, empty tube":  {"POST", "/v1/reserve?tube=", "", nil, 422, "BAD_FORMAT", "tube"},
	"reserve, no time":     {"POST", "/v1/reserve?wait=long", "", nil, 422, "BAD_FORMAT", "wait"},
	"reserve, too long":    {"POST", "/v1/reserve?wait=61m", "", nil, 422, "BAD_FORMAT", "hour"},
	"reserve, none":        {"POST", "/v1/reserve?n=0", "", nil, 422, "BAD_FORMAT", "n:"},
	"checkpoint, no lease": {"PUT", "/v1/jobs/1/checkpoint", "x", nil, 422, "BAD_FORMAT", "lease: it is missing"},
	"checkpoint, unknown":  {"PUT", "/v1/jobs/1/checkpoint?lease=1&ttr=1", "x", nil, 422, "BAD_FORMAT", "ttr"},
	"checkpoint, too big":  {"PUT", "/v1/jobs/1/checkpoint?lease=1", strings.Repeat("x", 64<<10+1), []string{octets}, 413, "JOB_TOO_BIG", "65536"},
	"checkpoint, as text":  {"PUT", "/v1/jobs/1/checkpoint?lease=1", "x", []string{"Content-Type: text/plain"}, 415, "UNSUPPORTED", "X-Redstalk"},
	"progress too long":    {"POST", "/v1/jobs/1/touch?lease=1&progress=" + strings.Repeat("x", 257), "", nil, 422, "BAD_FORMAT", "progress: it must have at most 256 bytes"},
	"progress, no text":    {"POST", "/v1/jobs/1/touch?lease=1&progress=a%00", "", nil, 422, "BAD_FORMAT", "progress"},
	"progress twice":       {"POST", "/v1/jobs/1/touch?lease=1&progress=a&progress=b", "", nil, 422, "BAD_FORMAT", "progress"},
	"keep, no word":        {"POST", "/v1/jobs/1/kick?keep_checkpoint=maybe", "", nil, 422, "BAD_FORMAT", "keep_checkpoint"},
	"reserve, too many":    {"POST", "/v1/reserve?n=1001", "", nil, 422, "BAD_FORMAT", "n:"},
	"reserve, unknown":     {"POST", "/v1/reserve?tubes=a", "", nil, 422, "BAD_FORMAT", "tubes"},
	"reserve, by a form":   {"POST", "/v1/reserve", "", []string{none}, 415, "UNSUPPORTED", "X-Redstalk"},
	"job, no number":       {"GET", "/v1/jobs/x", "", nil, 422, "BAD_FORMAT", "id"},
	"job, beyond 64 bits":  {"GET", "/v1/jobs/18446744073709551616", "", nil, 422, "BAD_FORMAT", "id"},
	"job, unknown":         {"GET", "/v1/jobs/18446744073709551615", "", nil, 404, "NOT_FOUND", ""},
	"delete, unknown":      {"DELETE", "/v1/jobs/7", "", nil, 404, "NOT_FOUND", ""},
	"delete, no lease":     {"DELETE", "/v1/jobs/7?lease=", "", nil, 422, "BAD_FORMAT", "lease"},
	"delete, long lease":   {"DELETE", "/v1/jobs/7?lease=" + strings.Repeat("1", 33), "", nil, 422, "BAD_FORMAT", "lease"},
	"delete, other lease":  {"DELETE", "/v1/jobs/7?lease=abc", "", nil, 404, "NOT_FOUND", "lease"},
	"touch without lease":  {"POST", "/v1/jobs/7/touch", "", nil, 422, "BAD_FORMAT", "lease"},
	"release, wrong delay": {"POST", "/v1/jobs/7/release?lease=1&delay=5ms", "", nil, 422, "BAD_FORMAT", "delay"},
	"bury, wrong priority": {"POST", "/v1/jobs/7/bury?lease=1&priority=-1", "", nil, 422, "BAD_FORMAT", "priority"},
	"touch by a form":      {"POST", "/v1/jobs/7/touch?lease=1", "", []string{none}, 415, "UNSUPPORTED", "X-Redstalk"},
	"kick by a form":       {"POST", "/v1/jobs/7/kick", "", []string{"Content-Type: text/plain"}, 415, "UNSUPPORTED", "X-Redstalk"},
	"reschedule, nowhen":   {"POST", "/v1/jobs/7/reschedule", "", nil, 422, "BAD_FORMAT", "in"},
	"reschedule, no time":  {"POST", "/v1/jobs/7/reschedule?in=x", "", nil, 422, "BAD_FORMAT", "in"},
	"priority, none":       {"POST", "/v1/jobs/7/priority", "", nil, 422, "BAD_FORMAT", "priority"},
	"priority, too large":  {"POST", "/v1/jobs/7/priority?priority=4294967296", "", nil, 422, "BAD_FORMAT", "priority"},
	"list, no state":       {"GET", "/v1/tubes/t/jobs", "", nil, 422, "BAD_FORMAT", "state"},
	"list, wrong state":    {"GET", "/v1/tubes/t/jobs?state=gone", "", nil, 422, "BAD_FORMAT", "state"},
	"list, too many":       {"GET", "/v1/tubes/t/jobs?state=ready&limit=1001", "", nil, 422, "BAD_FORMAT", "limit"},
	"tube, unknown":        {"GET", "/v1/tubes/t", "", nil, 404, "NOT_FOUND", ""},
	"tubes, too many":      {"GET", "/v1/tubes?limit=0", "", nil, 422, "BAD_FORMAT", "limit"},
	"list, beyond 32 bits": {"GET", "/v1/tubes/t/jobs?state=ready&limit=4294967297", "", nil, 422, "BAD_FORMAT", "limit"},
	"kick, beyond 32 bits": {"POST", "/v1/tubes/t/kick?n=4294967297", "", nil, 422, "BAD_FORMAT", "n"},
	"kick, none":           {"POST", "/v1/tubes/t/kick?n=0", "", nil, 422, "BAD_FORMAT", "n"},
	"pause, how long":      {"POST", "/v1/tubes/t/pause", "", nil, 422, "BAD_FORMAT", "for"},
	"pause, not whole":     {"POST", "/v1/tubes/t/pause?for=5ms", "", nil, 422, "BAD_FORMAT", "for"},
	"pause, unknown":       {"POST", "/v1/tubes/t/pause?for=5", "", nil, 404, "NOT_FOUND", ""},
	"move to nowhere":      {"POST", "/v1/tubes/t/move?state=ready&to=%20&n=1", "", nil, 422, "BAD_FORMAT", "to"},
	"move reserved":        {"POST", "/v1/tubes/t/move?state=reserved&to=u&n=1", "", nil, 422, "BAD_FORMAT", "state"},
	"flush, wrong state":   {"DELETE", "/v1/tubes/t/jobs?state=all", "", nil, 422, "BAD_FORMAT", "state"},
	"key, unknown":         {"GET", "/v1/tubes/t/keys/k", "", nil, 404, "NOT_FOUND", ""},
	"key with a blank":     {"DELETE", "/v1/tubes/t/keys/a%20b", "", nil, 422, "BAD_FORMAT", "key"},
	"policy, unknown":      {"PUT", "/v1/tubes/t/policy", `{"retyr":[1]}`, nil, 422, "BAD_FORMAT", "retyr"},
	"policy, wrong":        {"PUT", "/v1/tubes/t/policy", `{"retry":["x"]}`, nil, 422, "BAD_FORMAT", "retry"},
	"policy, no JSON":      {"PUT", "/v1/tubes/t/policy", `{`, nil, 400, "BAD_FORMAT", ""},
	"policy, empty":        {"PUT", "/v1/tubes/t/policy", ``, nil, 400, "BAD_FORMAT", ""},
	"policy, other type":   {"PUT", "/v1/tubes/t/policy", `{"max":5}`, []string{octets}, 415, "UNSUPPORTED", ""},
	"policy, push":         {"PUT", "/v1/tubes/t/policy", `{"push":"ftp://example.org/"}`, nil, 422, "BAD_FORMAT", "push"},
	"policy, push to what": {"PUT", "/v1/tubes/t/policy", `{"push_rate":"5/s"}`, nil, 422, "BAD_FORMAT", "push"},
	"policy, push rate":    {"PUT", "/v1/tubes/t/policy", `{"push":"http://example.org/","push_rate":"5/d"}`, nil, 422, "BAD_FORMAT", "push_rate"},
	"policy, no push here": {"PUT", "/v1/tubes/t/policy", `{"push":"http://example.org/"}`, nil, 403, "FORBIDDEN", ""},
	"policy, none":         {"GET", "/v1/tubes/t/policy", "", nil, 404, "NOT_FOUND", ""},
	"batch, no array":      {"POST", "/v1/tubes/t/jobs/batch", `{"body":"x"}`, nil, 422, "BAD_FORMAT", ""},
	"batch, half":          {"POST", "/v1/tubes/t/jobs/batch", `[{"body":"x"},`, nil, 400, "BAD_FORMAT", "not JSON"},
	"batch, too many":      {"POST", "/v1/tubes/t/jobs/batch", "[0" + strings.Repeat(",0", 1000) + "]", nil, 422, "BAD_FORMAT", "1001"},
	"batch, raw":           {"POST", "/v1/tubes/t/jobs/batch", "x", []string{octets}, 415, "UNSUPPORTED", ""},
	"events, no tube":      {"GET", "/v1/events?tube=%20", "", nil, 422, "BAD_FORMAT", "tube"},
	"drain by a form":      {"POST", "/v1/server/drain", "", []string{none}, 415, "UNSUPPORTED", ""},
	"drain, unknown":       {"POST", "/v1/server/drain?x=1", "", nil, 422, "BAD_FORMAT", "x"},
	"another site":         {"DELETE", "/v1/tubes/t/jobs", "", []string{"Sec-Fetch-Site: cross-site"}, 403, "FORBIDDEN", ""},
	"another origin":       {"POST", "/v1/tubes/t/jobs", `{"body":"x"}`, []string{"Origin: https://evil.example"}, 403, "FORBIDDEN", ""},
}

// TestBadInput: an invalid request is answered with a problem that names the error, and changes
// nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for name, test := range refusedRequests {
		got := a.call(test.method, test.path, test.body, test.headers...)
		p := decode[problem](t, got)
		if got.status != test.status || p.Status != test.status || p.Code != test.code || !strings.Contains(p.Detail, test.detail) || p.Title == "" {
			t.Errorf("%s: the answer to %s %.80s %.80s is %d %s", name, test.method, test.path, test.body, got.status, got.body)
		}
		if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%s: the answer has the content type %s", name, kind)
		}
		if retry := got.header.Get("Retry-After"); (retry != "") != (got.status == 503 || got.status == 429) {
			t.Errorf("%s: Retry-After is %q", name, retry)
		}
	}
	info := decode[serverInfo](t, a.want(200, "GET", "/v1/server", ""))
	if info.Jobs != 0 || info.Draining || info.Tubes != 1 {
		t.Errorf("something has changed: %+v", info)
	}
	// Requests that an HTML form cannot send are accepted.
	a.want(201, "POST", "/v1/tubes/t/jobs", "x", "Content-Type: text/plain", "X-Redstalk: 1")
	a.want(201, "POST", "/v1/tubes/t/jobs", "x", octets)
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x"}`, "Content-Type: application/json; charset=utf-8")
}
