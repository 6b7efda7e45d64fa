package protocol

import (
	"fmt"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The part of the model for extensions. It splits a line at its spaces, and parses every word
// with a regular expression and big numbers.

// modelExtensions has the kinds of the arguments of each word; those with "?" can be missing at
// the end.
var modelExtensions = map[string]string{
	"reserve-lease_": "seconds info?", "delete-lease_": "Q lease", "touch-lease_": "Q lease",
	"release-lease_": "Q lease D D", "bury-lease_": "Q lease D", "list-jobs_": "name state listed? cursor?",
	"find_": "name key", "delete-key_": "name key", "flush-tube_": "name state?", "move-jobs_": "name movable name moved",
	"reschedule_": "Q time", "set-priority_": "Q D", "replay-job_": "Q", "client_": "key", "list-clients_": "listed? cursor?", "watch_": "name weight?",
	"list-groups_": "name listed? groupcursor?", "list-schedules_": "listed? schedulecursor?",
	"get-schedule_": "schedule", "delete-schedule_": "schedule", "pause-schedule_": "schedule", "resume-schedule_": "schedule", "run-schedule_": "schedule",
	"seal-batch_": "batchname", "stats-batch_": "batchname", "cancel-batch_": "batchname", "list-batches_": "listed? batchname?", "list-members_": "batchname listed? cursor?",
}

var modelKinds = map[string]*regexp.Regexp{
	"lease": regexp.MustCompile(`^[!-~]{1,32}$`), "cursor": regexp.MustCompile(`^[!-~]{1,64}$`), "groupcursor": regexp.MustCompile(`^[!-~]{1,171}$`), "key": regexp.MustCompile(`^[!-~]{1,128}$`),
	"schedule": regexp.MustCompile(`^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,99}$`), "batchname": regexp.MustCompile(`^[!-~]{1,100}$`), "schedulecursor": regexp.MustCompile(`^[!-~]{1,100}$`),
	"name": modelName, "info": regexp.MustCompile(`^info$`), "state": regexp.MustCompile(`^(ready|reserved|delayed|buried)$`), "movable": regexp.MustCompile(`^(ready|delayed|buried)$`),
}

// modelLists are the words that can be followed by a count and a cursor.
var modelLists = []string{"list-clients", "list-schedules", "list-batches"}

// modelRanges has the kinds that are numbers, with the lowest and the highest value.
var modelRanges = map[string][2]string{
	"Q": {"0", "18446744073709551615"}, "D": {"0", "4294967295"}, "seconds": {"0", "2147483647"}, "listed": {"1", "1000"}, "weight": {"1", "1000"}, "batch": {"1", "1000"}, "moved": {"1", "4294967295"},
	"at": {"0", "9223372036853"}, "max": {"1", "1000000"}, "push-concurrency": {"1", "10000"}, "rate": {"1", "1000000"}, "limit": {"1", "1000000"}, "port": {"1", "65535"},
	"catch-up-all": {"1", "1000"}, "preview": {"1", "1000"}, "from": {"1", "9223372036853"},
}

// modelRange returns the number in a word, without leading zeros, if it is in the range of
// that kind.
func modelRange(kind, word string) (string, bool) {
	n, ok := new(big.Int).SetString(word, 10)
	if !ok || strings.Trim(word, "0123456789") != "" {
		return "", false
	}
	low, _ := new(big.Int).SetString(modelRanges[kind][0], 10)
	high, _ := new(big.Int).SetString(modelRanges[kind][1], 10)
	return n.String(), n.Cmp(low) >= 0 && n.Cmp(high) <= 0
}

var modelSpaces = regexp.MustCompile(` +`)

// extension parses the arguments of an extension, or of a word without arguments.
func (m *modelLine) extension(w, args string) bool {
	switch w {
	case "reserve-batch_":
		return m.reserveBatch(modelSpaces.Split(strings.TrimLeft(args, " "), -1))
	case "delete-batch_":
		for args += " "; strings.Trim(args, " ") != ""; {
			id, rest, _ := strings.Cut(strings.TrimLeft(args, " "), " ")
			if !m.numbers("Q", id) {
				return false
			}
			args = rest
		}
		m.text += fmt.Sprint(" ", m.n)
		return args == "" && 1 <= len(m.n) && len(m.n) <= 1000
	case "auth_":
		user, secret, _ := strings.Cut(strings.TrimLeft(args, " "), " ")
		m.text += fmt.Sprintf(" %s %q", user, secret)
		return modelKinds["key"].MatchString(user) && secret != ""
	case "set-policy_":
		name, _, _ := strings.Cut(strings.TrimLeft(args, " "), " ")
		m.tags(strings.TrimLeft(args, " ")[len(name):], modelPolicyTags)
		m.text += " " + name + m.tagText
		return modelName.MatchString(name) && !m.junk && !m.badTags
	case "set-group_", "get-group_", "stats-group_", "pause-group_", "flush-group_":
		return m.group(w, args)
	case "set-schedule_":
		return m.setSchedule(args)
	case "preview-schedule_":
		return m.preview(args)
	}
	kinds, found := modelExtensions[strings.TrimSuffix(w, "_")+"_"]
	switch {
	case !found:
		return args == ""
	case w == "watch_" && strings.HasPrefix(args, " "):
		return false
	case w == "client_" && strings.HasPrefix(strings.TrimLeft(args, " "), `"`):
		name, ok := modelUnquote(strings.TrimLeft(args, " "))
		m.text += " " + name
		return ok && name != "" && len(name) <= 128 && !strings.ContainsAny(name, "\n\t")
	case slices.Contains(modelLists, w) && args == "":
		args, kinds = " 100", "listed"
	}
	if known := modelEndTags[w]; known != "" {
		p := modelLeaseArgs[w].FindStringSubmatch(args)
		if p == nil {
			return false
		}
		ok := m.words(strings.Fields(kinds), modelSpaces.Split(strings.TrimLeft(p[1], " "), -1))
		if m.tags(p[2], known); ok {
			m.rest = p[2]
		}
		m.text += m.tagText
		return ok && !m.junk && !m.badTags
	}
	return m.words(strings.Fields(kinds), modelSpaces.Split(strings.TrimLeft(args, " "), -1))
}

var (
	modelSetSchedule = regexp.MustCompile(`(?s)^ *([^ ]+) +([^ ]+)( .*)$`)
	modelPreview     = regexp.MustCompile(`(?s)^ *("(?:\\.|[^"\\])*(?:"[^ ]*|\\?$)|[^ ]*)(.*)$`)
)

// setSchedule parses NAME TUBE PRI TTR SIZE and tags. All that is wrong with the tags is badTags.
func (m *modelLine) setSchedule(args string) bool {
	p := modelSetSchedule.FindStringSubmatch(args)
	if p == nil || !m.numbers("DDD…", p[3]) {
		return m.skip("set-schedule_", args)
	}
	if m.badTags = !modelKinds["schedule"].MatchString(p[1]) || !modelName.MatchString(p[2]); m.badTags {
		return true
	}
	m.names = " " + p[1] + " " + p[2]
	m.tags(m.rest, modelScheduleTags)
	m.badTags = m.badTags || m.junk || strings.Contains(m.tagText, " cron=") == strings.Contains(m.tagText, " every=")
	m.junk = false
	return true
}

// preview parses NAME N, or EXPRESSION N and tags.
func (m *modelLine) preview(args string) bool {
	p := modelPreview.FindStringSubmatch(args)
	if !strings.HasPrefix(p[1], `"`) {
		return m.words([]string{"schedule", "preview"}, modelSpaces.Split(strings.TrimLeft(args, " "), -1))
	}
	expression, ok := modelUnquote(p[1])
	if !ok || expression == "" || len(expression) > 256 || !m.numbers("D…", p[2]) {
		return false
	}
	n, ok := modelRange("preview", fmt.Sprint(m.n[0]))
	m.tags(m.rest, "tz")
	m.text += fmt.Sprintf("  %s cron=%q%s", n, expression, m.tagText)
	return ok && !m.junk && !m.badTags
}

// modelGroup splits the arguments of such commands: a tube, a group that can be in quotes, and the rest.
var modelGroup = regexp.MustCompile(`(?s)^ *([^ ]*) +("(?:\\.|[^"\\])*(?:"[^ ]*|\\?$)|[^ ]*)(.*)$`)

// group parses the arguments of a command about a group.
func (m *modelLine) group(w, args string) bool {
	p := modelGroup.FindStringSubmatch(args)
	if p == nil || !modelName.MatchString(p[1]) {
		return false
	}
	group, ok := modelUnquote(p[2])
	if !ok || group == "" || len(group) > 128 {
		return false
	}
	m.text += fmt.Sprintf(" %s %q", p[1], group)
	switch w {
	case "set-group_":
		m.tags(p[3], modelGroupTags)
		m.text += m.tagText
		return !m.junk && !m.badTags
	case "pause-group_":
		ok = m.numbers("D", p[3])
		m.text += fmt.Sprint(" ", append(m.n, 0)[0])
		return ok
	}
	return p[3] == ""
}

// reserveBatch parses COUNT [SECONDS] [lease] [info].
func (m *modelLine) reserveBatch(words []string) bool {
	count, ok := modelRange("batch", words[0])
	words, seconds := words[1:], "0"
	if len(words) > 0 {
		if n, given := modelRange("seconds", words[0]); given {
			words, seconds = words[1:], n
		}
	}
	flags := ""
	for _, w := range words {
		flags += " " + w
	}
	m.text = fmt.Sprintf("reserve-batch [%s %s]%s", count, seconds, flags)
	return ok && slices.Contains([]string{"", " lease", " info", " lease info"}, flags)
}

// words parses words of these kinds.
func (m *modelLine) words(kinds, words []string) bool {
	if len(words) > len(kinds) {
		return false
	}
	for i, kind := range kinds {
		kind, mayMiss := strings.CutSuffix(kind, "?")
		if i >= len(words) {
			if !mayMiss {
				return false
			}
			if kind == "listed" {
				m.text += " 100"
			}
			continue
		}
		shown, ok := modelWord(kind, words[i])
		if !ok {
			return false
		}
		m.text += " " + shown
	}
	return true
}

// modelWord returns a word of a kind in the format of show, and whether it is valid.
func modelWord(kind, word string) (string, bool) {
	if _, number := modelRanges[kind]; number {
		return modelRange(kind, word)
	}
	switch kind {
	case "time":
		return modelTime(word)
	case "lease":
		if n, ok := modelRange("Q", word); ok && len(word) == 20 {
			return n, true
		}
		return "0", modelKinds[kind].MatchString(word)
	}
	return word, modelKinds[kind].MatchString(word)
}

// modelTags are the tags of put, of set-policy, of set-group and of set-schedule, in the order of show.
const (
	modelPutTags    = "delay at key on-duplicate key-ttl retry max dead meta trace expire-at failed-at reason group batch batch-ttl after after-all"
	modelPolicyTags = "on-duplicate key-ttl retry max dead quota-jobs quota-bytes push push-concurrency push-timeout push-rate group-concurrency group-rate group-order concurrency rate"
	modelGroupTags  = "concurrency rate weight ttl"

	modelScheduleTags = "delay key key-ttl retry max dead meta trace group batch batch-ttl after after-all cron every tz overlap catch-up catch-up-all from until"
)

// modelEndTags are the tags of commands that end with some.
var modelEndTags = map[string]string{"release_": "reason failure", "bury_": "reason", "release-lease_": "reason failure", "bury-lease_": "reason"}

// modelLeaseArgs splits the arguments of such commands by lease from their tags.
var modelLeaseArgs = map[string]*regexp.Regexp{
	"release-lease_": regexp.MustCompile(`(?s)^( *[^ ]+ +[^ ]+ +[0-9]+ +[0-9]+)(.*)$`), "bury-lease_": regexp.MustCompile(`(?s)^( *[^ ]+ +[^ ]+ +[0-9]+)(.*)$`),
}

// modelWordOfTag matches a tag with spaces before it, and modelWordOfMeta the tag meta. modelQuoted
// matches what can be in quotes.
var (
	modelWordOfTag  = regexp.MustCompile(`(?s)^ +([^ :]*):("(?:\\.|[^"\\])*(?:"[^ ]*|\\?$)|[^ ]*)`)
	modelWordOfMeta = regexp.MustCompile(`(?s)^ +(meta):([^ =]*="(?:\\.|[^"\\])*(?:"[^ ]*|\\?$)|[^ ]*)`)
	modelQuoted     = regexp.MustCompile(`^"((?:[^"\\[:cntrl:]]|\\["\\nt])*)"$`)
	modelPlain      = regexp.MustCompile(`^[!-~]+$`)
	modelMeta       = regexp.MustCompile(`(?s)^([A-Za-z0-9_-]{1,128})=(.*)$`)
)

// modelUnquote returns a value without quotes and escapes, and whether it is valid.
func modelUnquote(value string) (string, bool) {
	if !strings.HasPrefix(value, `"`) {
		return value, modelPlain.MatchString(value)
	}
	p := modelQuoted.FindStringSubmatch(value)
	if p == nil || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(p[1]), true
}

// modelMetas adds a meta to those that came before, and returns whether they are valid.
func modelMetas(before []string, value string) ([]string, bool) {
	name, text, found := strings.Cut(value, "=")
	ok := text == "" && modelPlain.MatchString(value)
	if text != "" {
		text, ok = modelUnquote(text)
	}
	all, size := append(before, name+"="+text), 0
	for i, one := range all {
		p := modelMeta.FindStringSubmatch(one)
		if p == nil {
			return all, false
		}
		size += len(one) - 1
		for _, other := range all[:i] {
			ok = ok && !strings.EqualFold(strings.SplitN(other, "=", 2)[0], p[1])
		}
	}
	return all, ok && found && len(all) <= 16 && size <= 1024
}

// tags parses what follows the length of a put, or the name of a policy. It sets junk if
// there is anything but tags, else badTags if they are invalid, else tagText.
func (m *modelLine) tags(rest, known string) {
	m.junk, m.badTags, m.tagText = false, false, ""
	if rest == "" {
		return
	}
	if rest[0] != ' ' {
		m.junk = true
		return
	}
	got, metas := map[string]string{}, []string(nil)
	for rest != "" {
		p := modelWordOfMeta.FindStringSubmatch(rest)
		if p == nil {
			p = modelWordOfTag.FindStringSubmatch(rest)
		}
		if p == nil || !strings.Contains(" "+known+" ", " "+p[1]+" ") {
			m.junk, m.badTags = true, false
			return
		}
		name, value := p[1], p[2]
		rest = rest[len(p[0]):]
		if name == "meta" {
			var ok bool
			metas, ok = modelMetas(metas, value)
			m.badTags = m.badTags || !ok
			continue
		}
		plain, ok := modelUnquote(value)
		shown, valid := modelTag(name, plain)
		ok = ok && valid
		if _, twice := got[name]; twice || !ok {
			m.badTags = true
		}
		got[name] = shown
	}
	m.badTags = m.badTags || modelContradiction(got)
	for _, name := range strings.Fields("delay at key on-duplicate key-ttl retry max dead trace expire-at failed-at reason failure quota-jobs quota-bytes push push-concurrency push-timeout push-rate group group-concurrency group-rate group-order concurrency rate weight ttl batch batch-ttl after after-all cron every tz overlap catch-up catch-up-all from until") {
		if shown, ok := got[name]; ok && shown != "skip" {
			m.tagText += " " + name + "=" + shown
		}
	}
	if metas != nil {
		m.tagText += fmt.Sprintf(" meta=%q", metas)
	}
}

// modelContradiction reports whether tags contradict each other, or one of them needs another.
func modelContradiction(got map[string]string) bool {
	has := func(name string) bool { _, ok := got[name]; return ok }
	if has("delay") && has("at") || has("reason") && got["failure"] != "" || !has("reason") && got["failed-at"] != "" || modelWrongBatch(got, has("at")) {
		return true
	}
	return !has("push") && (has("push-concurrency") || has("push-timeout") || has("push-rate"))
}

// modelWrongBatch is modelContradiction for tags about batches.
func modelWrongBatch(got map[string]string, at bool) bool {
	after, all := got["after"], got["after-all"]
	return after != "" && all != "" || after+all != "" && (at || after+all == got["batch"]) || got["batch-ttl"] != "" && got["batch"]+after+all == ""
}

// modelTag returns the value of a tag in the format of show, and whether it is valid.
func modelTag(name, value string) (string, bool) {
	switch name {
	case "delay", "key-ttl", "ttl", "catch-up":
		return modelTime(value)
	case "every", "cron", "tz", "catch-up-all", "from", "until":
		return modelScheduleTag(name, value)
	case "group", "group-concurrency", "concurrency", "weight", "group-order", "group-rate", "rate":
		return modelGroupTag(name, value)
	case "batch", "after", "after-all":
		return value, modelKinds["batchname"].MatchString(value)
	case "batch-ttl":
		shown, ok := modelTime(value)
		return shown, ok && shown != "0s"
	case "push":
		return value, modelPush(value)
	case "push-rate":
		number, unit, found := strings.Cut(value, "/")
		if !found {
			unit = "s"
		}
		n, ok := modelRange("rate", number)
		return n + "/" + unit, ok && len(unit) == 1 && strings.Contains("smh", unit)
	case "push-timeout":
		shown, ok := modelTime(value)
		d, _ := time.ParseDuration(shown)
		return shown, ok && 0 < d && d <= time.Hour
	case "expire-at", "failed-at":
		n, ok := modelRange("at", value)
		return n, ok && n != "0"
	case "push-concurrency", "at", "max":
		return modelRange(name, value)
	case "quota-jobs", "quota-bytes":
		return modelRange("Q", value)
	case "key":
		return value, modelKinds["key"].MatchString(value)
	case "trace":
		return value, modelTrace.MatchString(value) && !strings.HasPrefix(value, "ff") && !strings.Contains(value, "-"+strings.Repeat("0", 16))
	case "reason":
		return value, 0 < len(value) && len(value) <= 512
	case "dead":
		return value, modelName.MatchString(value)
	case "failure", "on-duplicate", "overlap":
		return value, slices.Contains(modelValues[name], value)
	}
	times := strings.Split(value, ",")
	for i, one := range times {
		shown, ok := modelTime(one)
		if !ok || i == 32 {
			return "", false
		}
		times[i] = shown
	}
	return fmt.Sprint(times), true
}

// modelPush reports whether a URL can be pushed to.
func modelPush(url string) bool {
	p := modelURL.FindStringSubmatch(url)
	if p == nil || len(url) > 512 {
		return false
	}
	if addr, ok := strings.CutPrefix(p[1], "["); ok && net.ParseIP(addr[:len(addr)-1]) == nil {
		return false
	}
	_, ok := modelRange("port", strings.TrimPrefix(p[2], ":"))
	return ok || p[2] == ""
}

// modelValues are the values of tags that have only a few.
var modelValues = map[string][]string{"failure": {"no"}, "on-duplicate": {"keep", "replace", "fail"}, "overlap": {"skip", "replace", "allow", "buffer-one"}}

// modelScheduleTag is modelTag for tags about schedules.
func modelScheduleTag(name, value string) (string, bool) {
	switch name {
	case "every":
		shown, ok := modelTime(value)
		return shown, ok && shown != "0s"
	case "cron":
		return fmt.Sprintf("%q", value), 0 < len(value) && len(value) <= 256
	case "tz":
		return value, len(value) <= 256 && modelPlain.MatchString(value)
	case "catch-up-all", "from":
		return modelRange(name, value)
	}
	return modelRange("from", value)
}

// modelGroupTag is modelTag for tags about groups and limits.
func modelGroupTag(name, value string) (string, bool) {
	switch name {
	case "group":
		return value, 0 < len(value) && len(value) <= 128
	case "group-concurrency", "concurrency":
		return modelRange("limit", value)
	case "weight":
		return modelRange("weight", value)
	case "group-order":
		return value, value == "fair" || value == "strict"
	}
	return modelRates(value)
}

// modelRates returns rates in the format of show, and whether they are valid: each unit once at most.
func modelRates(value string) (string, bool) {
	got, shown := map[string]string{}, []string(nil)
	for _, one := range strings.Split(value, ",") {
		text, ok := modelTag("push-rate", one)
		n, unit, _ := strings.Cut(text, "/")
		if !ok || got[unit] != "" {
			return "", false
		}
		got[unit] = n
	}
	for _, unit := range []string{"s", "m", "h"} {
		if got[unit] != "" {
			shown = append(shown, got[unit]+"/"+unit)
		}
	}
	return strings.Join(shown, ","), true
}

var modelTrace = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// modelURL matches valid push URLs. Its groups are the host, and a colon with the port.
var modelURL = regexp.MustCompile(`^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\])(:[0-9]+)?(?:[/?](?:[!-"$&-\[\]-~]|%[0-9A-Fa-f]{2})*)?$`)

var modelTimeShape = regexp.MustCompile(`^([0-9]+)(|ms|s|m|h|d)$`)

// modelTime returns a duration in the format of show, and whether it is valid: at most ten years,
// with a number of at most 64 bits.
func modelTime(text string) (string, bool) {
	p := modelTimeShape.FindStringSubmatch(text)
	if p == nil {
		return "", false
	}
	if _, ok := modelRange("Q", p[1]); !ok {
		return "", false
	}
	ms := map[string]int64{"": 1000, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[p[2]]
	d, _ := new(big.Int).SetString(p[1], 10)
	d.Mul(d, big.NewInt(ms))
	return (time.Duration(d.Int64()) * time.Millisecond).String(), d.Cmp(big.NewInt(10*365*86_400_000)) <= 0
}

// modelMaxLine returns the longest length of such a line.
func modelMaxLine(line string) int {
	word, args, _ := strings.Cut(line, " ")
	switch word {
	case "delete-batch":
		return 16384
	case "set-policy", "set-group", "get-group", "stats-group", "pause-group", "flush-group", "preview-schedule":
		return 4096
	case "set-schedule":
		if m := (&modelLine{}); m.setSchedule(args) && (m.tagText != "" || m.badTags) {
			return 4096
		}
	case "find", "delete-key", "list-jobs", "move-jobs", "list-groups":
		return 450
	case "put":
		m := &modelLine{}
		if m.args("put_", args) && m.rest+m.tagText != "" && !m.junk || m.malformed {
			return 4096
		}
	case "release", "bury", "release-lease", "bury-lease":
		m := &modelLine{verb: word}
		if m.args(word+"_", args); m.rest != "" && (!m.junk && (m.tagText != "" || m.badTags) || strings.Contains(m.rest, ":")) {
			return 4096
		}
	}
	return 224
}

// skip is for arguments of a verb with a body that are malformed: its body is skipped if the length can be told, and
// there is a colon.
func (m *modelLine) skip(w, args string) bool {
	if !strings.Contains(args, ":") {
		return false
	}
	for _, tags := range []bool{true, false} {
		rest, words := " "+args, []string(nil)
		for strings.Trim(rest, " ") != "" {
			p := modelWordOfMeta.FindStringSubmatch(rest)
			if p == nil {
				p = modelWordOfTag.FindStringSubmatch(rest)
			}
			if isTag := tags && p != nil && !strings.ContainsAny((p[1] + ":")[:1], "0123456789"); !isTag {
				p = modelAnyWord.FindStringSubmatch(rest)
				words = append(words, p[1])
			}
			rest = rest[len(p[0]):]
		}
		m.n = nil
		if at := map[string]int{"put_": 3, "set-schedule_": 4}[w]; at < len(words) && m.numbers("D…", words[at]) {
			m.badTags, m.malformed = true, true
			return true
		}
	}
	return false
}

var modelAnyWord = regexp.MustCompile(`(?s)^ +([^ ]+)`)

// bad is for a line that is not parsed: it is too long, or has a NUL or a CR.
func (m *modelLine) bad(line string, long bool) {
	if long {
		line = line[:min(len(line), modelMaxLine(line))]
		if last := strings.LastIndex(line, " ") + 1; !strings.Contains(line[last:], ":") {
			line = line[:last]
		}
	}
	for w := range modelBodies {
		if args, ok := strings.CutPrefix(line, w+" "); ok && m.skip(w+"_", args) {
			m.verb = w
			return
		}
	}
	m.verb, m.fault = "unknown", "BAD_FORMAT"
}
