package migrate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

// Between two redstalks the tags of a job come with it. Those that it has from a policy become its own:
// stats-job does not distinguish them, and the new server can have other policies.

// parseTags returns the tags of a job from the page of its stats; nil if it has none, as on
// beanstalkd. left says that one cannot be moved: which job it is the dead letter of.
func parseTags(page client.Page, now time.Time) (t *protocol.Tags, left bool) {
	if _, has := page.Value("deliveries"); !has {
		return nil, false
	}
	text := func(key string) string {
		value, _ := page.Value(key)
		return unquoted(value)
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(text(key), 10, 64)
		return n
	}
	t = &protocol.Tags{Key: text("key"), Group: text("group"), Trace: text("trace"), Reason: text("reason"), FailedAt: number("failed-ms")}
	for _, f := range field.OfRules {
		if value := text(f.Name); value != "" && f.In != 0 {
			f.Parse(&t.Rules, []byte(value)) // a max of 0, which is none, sets nothing
		}
	}
	meta, _ := page.Value("meta")
	for _, m := range metaEntry.FindAllStringSubmatch(meta, -1) {
		t.Meta = append(t.Meta, protocol.Meta{Name: m[1], Value: unquoted(m[2])})
	}
	// One that is buried, and whose time is over, does not expire any more.
	if in := number("expires-ms"); in > 0 || in < 0 && text("state") != "buried" {
		t.ExpireAt = now.UnixMilli() + in
	} else {
		t.OnExpire = field.NoOnExpire
	}
	if name := text("schedule"); name != "" {
		t.Schedule = &protocol.ScheduleTags{Name: name, Nominal: number("nominal-ms")}
	}
	t.Batch = protocol.BatchTags{Name: text("batch"), After: text("after"), AfterAll: text("after-all")}
	return t, text("from-tube") != ""
}

// metaEntry matches an entry of the map meta.
var metaEntry = regexp.MustCompile(`([A-Za-z0-9_-]+): ("(?:[^"\\]|\\.)*")`)

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t")

// unquoted returns a value of a page without its quotes, if it has any.
func unquoted(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	return unescape.Replace(value[1 : len(value)-1])
}

// words returns tags, except for the key, as they stand in a put, each behind a space. can says which
// extensions the server has; lost, whether tags were left out because of that.
func words(t *protocol.Tags, can func(extension string) bool) (all string, lost bool) {
	if t == nil {
		return "", false
	}
	add := func(set bool, extension, format string, value any) {
		if set && can(extension) {
			all += fmt.Sprintf(" "+format, value)
		}
		lost = lost || set && !can(extension)
	}
	for _, f := range field.OfRules {
		needs := f.Capability
		if f.Kind == field.Retry && t.Doubled > 0 {
			needs = "backoff"
		}
		add(f.In != 0 && f.IsSet(&t.Rules), needs, "%s", f.Name+":"+f.Format(&t.Rules))
	}
	add(t.Group != "", "groups", "group:%s", protocol.Quote(t.Group))
	add(t.ExpireAt != 0, "restore", "expire-at:%d", t.ExpireAt)
	add(t.Reason != "", "restore", "reason:%s", protocol.Quote(t.Reason))
	add(t.Reason != "" && t.FailedAt > 0, "restore", "failed-at:%d", t.FailedAt)
	add(t.Trace != "", "meta", "trace:%s", t.Trace)
	if s := t.Schedule; s != nil {
		add(true, "schedules", "schedule:%s", s.Name)
		add(true, "schedules", "nominal-ms:%d", s.Nominal)
	}
	add(t.Batch.Name != "", "batches", "batch:%s", t.Batch.Name)
	add(t.Batch.After != "", "batches", "after:%s", t.Batch.After)
	add(t.Batch.AfterAll != "", "batches", "after-all:%s", t.Batch.AfterAll)
	for _, m := range t.Meta {
		add(true, "meta", "meta:%s", m.Name+"="+protocol.Quote(m.Value))
	}
	return all, lost
}
