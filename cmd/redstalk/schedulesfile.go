package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

// newSchedule is a schedule that is to be set.
type newSchedule struct {
	name, tube string
	pri        uint64
	ttr        int64 // seconds
	body       []byte
	words      []string          // its tags
	shown      map[string]string // its settings, as settingsOf returns them; until it is parsed only its tags

	from, until time.Time // zero: not set
}

// scheduleNamed returns a schedule with the defaults.
func scheduleNamed(name string) *newSchedule {
	return &newSchedule{name: name, tube: "default", pri: defaultPri, ttr: wholeSeconds(defaultTTR), shown: map[string]string{"overlap": protocol.OverlapWords[0]}}
}

// command returns the command that sets the schedule, without the last CR LF.
func (s *newSchedule) command() string {
	words := append([]string{"set-schedule", s.name, s.tube, fmt.Sprint(s.pri), fmt.Sprint(s.ttr), fmt.Sprint(len(s.body))}, s.words...)
	return strings.Join(words, " ") + "\r\n" + string(s.body)
}

// Limits of the server.
const (
	leastPeriod   = time.Second
	longestSpread = 24 * time.Hour
)

// check returns what is wrong with the schedule, as far as this program knows whatever the time is.
func (s *newSchedule) check() error {
	has := func(tag string) bool { return s.shown[tag] != "" }
	every, _ := field.ParseDuration(s.shown["every"])
	spread, _ := field.ParseDuration(s.shown["jitter"])
	wrong := protocol.WrongTags(strings.Join(s.words, " "), field.InSchedule)
	switch {
	case !protocol.ValidName([]byte(s.tube)):
		return fmt.Errorf("%q is not the name of a tube", s.tube)
	case s.pri > 1<<32-1 || s.ttr > 1<<32-1:
		return errors.New("pri and ttr must be below 4294967296")
	case wrong != "":
		return errors.New(wrong)
	case has("cron") == has("every"):
		return errors.New("there must be one of the tags cron and every")
	case has("every") && every < leastPeriod:
		return fmt.Errorf("every must be at least %v", leastPeriod)
	case spread > longestSpread:
		return fmt.Errorf("jitter must be at most %v", longestSpread)
	case has("key") && s.shown["overlap"] == "allow":
		return errors.New("key and overlap:allow contradict each other")
	case has("group") && s.shown["overlap"] == "buffer-one":
		return errors.New("group and overlap:buffer-one contradict each other: the jobs have a group of their own")
	case !s.until.IsZero() && s.until.Before(s.from):
		return errors.New("until is before from")
	}
	return nil
}

// readSchedules reads a file of schedules, sorted by name. - is standard input.
func readSchedules(t *task, path string) ([]*newSchedule, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = readAll(t)
	} else if text, err = os.ReadFile(path); err != nil {
		err = fileError("the schedules", path, err)
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Schedules map[string]map[string]yaml.Node
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && err != io.EOF {
		return nil, usage("reading %s: %v", path, err)
	}
	if file.Schedules == nil {
		return nil, usage("%s has no key schedules, which can be {}", path)
	}
	var all []*newSchedule
	for _, name := range slices.Sorted(maps.Keys(file.Schedules)) {
		s, err := parseSchedule(name, file.Schedules[name])
		if err != nil {
			return nil, usage("%s: schedule %s: %v", path, name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// parseSchedule reads one schedule of a file.
func parseSchedule(name string, settings map[string]yaml.Node) (*newSchedule, error) {
	if err := checkSchedule(name); err != nil {
		return nil, err
	}
	s := scheduleNamed(name)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		node := settings[key]
		if node.Kind == yaml.AliasNode {
			node = *node.Alias
		}
		if err := s.set(key, &node); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	sum := sha256.Sum256(s.body)
	s.shown["tube"], s.shown["pri"], s.shown["ttr"], s.shown[bodyKey] = s.tube, fmt.Sprint(s.pri), fmt.Sprint(s.ttr), hex.EncodeToString(sum[:])
	return s, s.check()
}

// bodyKey is the key of get-schedule for the SHA-256 of the body.
const bodyKey = "body-sha256"

// set sets one setting.
func (s *newSchedule) set(key string, node *yaml.Node) (err error) {
	switch key {
	case "body":
		s.body, err = bodyOf(node)
		return err
	case "meta":
		return s.setMeta(node)
	}
	text, err := textOf(node)
	if err != nil {
		return err
	}
	switch key {
	case "tube":
		s.tube = text
	case "pri":
		s.pri, err = strconv.ParseUint(text, 10, 32)
	case "ttr":
		var ttr time.Duration
		ttr, err = parseDuration(text)
		s.ttr = wholeSeconds(ttr)
	default:
		return s.setTag(key, text)
	}
	return err
}

// bodyOf returns a body: a text is the body itself; of anything else it is the JSON.
func bodyOf(node *yaml.Node) ([]byte, error) {
	if node.Kind == yaml.ScalarNode {
		return []byte(node.Value), nil
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// textOf returns the text of a value, or of several ones with commas between them.
func textOf(node *yaml.Node) (string, error) {
	if node.Kind == yaml.ScalarNode {
		return node.Value, nil
	}
	var texts []string
	if err := node.Decode(&texts); err != nil {
		return "", errors.New("it must be a text, or a list of texts")
	}
	return strings.Join(texts, ","), nil
}

func (s *newSchedule) setMeta(node *yaml.Node) error {
	var meta map[string]string
	if err := node.Decode(&meta); err != nil {
		return errors.New("it must be a map of texts")
	}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		s.words = append(s.words, metaWord(name, meta[name]))
	}
	s.shown["meta"] = metaText(meta)
	return nil
}

// metaText returns the names of meta with their values, in the order of the names.
func metaText(meta map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		words = append(words, name+"="+protocol.Quote(meta[name]))
	}
	return strings.Join(words, " ")
}

// setTag sets a tag with one value.
func (s *newSchedule) setTag(name, text string) error {
	i := slices.IndexFunc(protocol.TagsIn(field.InSchedule), func(tag protocol.Tag) bool { return tag.Name == name })
	if i < 0 {
		return errors.New("there is no such setting")
	}
	shown := text
	switch kind := protocol.TagsIn(field.InSchedule)[i].Kind; kind {
	case "TIME":
		when, err := parseTime(text)
		if err != nil {
			return err
		}
		text = fmt.Sprint(when.UnixMilli())
		shown = text
		if name == "from" {
			s.from = when
		} else {
			s.until = when
		}
	case "SPREAD", "DURATION":
		if _, err := strconv.ParseUint(text, 10, 8); err == nil && kind == "SPREAD" {
			s.words, s.shown["retry-jitter"] = append(s.words, name+":"+text), text
			return nil
		}
		if d, ok := field.ParseDuration(text); ok {
			shown = field.Durations(d)
		}
	case "DURATIONS":
		if waits, doubled, ok := field.ParseRetry([]byte(text)); ok {
			shown = field.RetryText(waits, doubled)
		}
	}
	if name == "cron" {
		text = protocol.Quote(text)
	} else {
		text = tagWord(text)
	}
	s.words, s.shown[name] = append(s.words, name+":"+text), shown
	return nil
}

// settingsOf returns the settings in the page of a schedule.
func settingsOf(page client.Page) (map[string]string, error) {
	var all map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(page), &all); err != nil {
		return nil, fmt.Errorf("reading a page of get-schedule: %w", err)
	}
	settings := make(map[string]string)
	keep := func(key string) {
		if node, ok := all[key]; ok {
			settings[key] = node.Value
		}
	}
	for _, key := range []string{"tube", "pri", "ttr", bodyKey, "retry-jitter"} {
		keep(key)
	}
	for _, tag := range protocol.TagsIn(field.InSchedule) {
		keep(tag.Name)
	}
	if node, ok := all["meta"]; ok {
		var meta map[string]string
		if err := node.Decode(&meta); err != nil {
			return nil, fmt.Errorf("reading a page of get-schedule: %w", err)
		}
		settings["meta"] = metaText(meta)
	}
	return settings, nil
}

// changesOf returns which settings differ, by key: what they are now, and what they will be; "" is not
// set.
func changesOf(now, then map[string]string) map[string][2]string {
	changes := make(map[string][2]string)
	for _, settings := range []map[string]string{now, then} {
		for key := range settings {
			if now[key] != then[key] {
				changes[key] = [2]string{now[key], then[key]}
			}
		}
	}
	return changes
}

// appliedSchedule is what is done with a schedule.
type appliedSchedule struct {
	Name    string               `json:"name"`
	Action  string               `json:"action"` // create, change, move, delete
	DryRun  bool                 `json:"dry_run,omitempty"`
	Changes map[string][2]string `json:"changes,omitempty"` // by key: the value before and after

	set *newSchedule // nil: it is deleted
}

// applySchedules is the action apply.
func applySchedules(t *task, args []string) error {
	file, err := readSchedules(t, args[0])
	if err != nil {
		return err
	}
	plan, err := t.planSchedules(file)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	for i := range plan {
		if t.Context.Context.Err() != nil {
			return interrupted(fmt.Sprintf("%d of %s done", i, nounFor(len(plan), "change")))
		}
		if err := t.apply(&plan[i]); err != nil {
			return err
		}
	}
	if len(plan) == 0 {
		t.infof("redstalk: the schedules are those of the file already")
	}
	return nil
}

// planSchedules returns what must be done so that the schedules are those of a file. It changes nothing.
func (t *task) planSchedules(file []*newSchedule) (plan []appliedSchedule, err error) {
	gone := make(map[string]bool)
	note := func(s *scheduleStats) error { gone[s.Name] = true; return nil }
	if err := eachListed(t, "listing schedules", "list-schedules", "schedules", note); err != nil {
		return nil, err
	}
	for _, s := range file {
		do := appliedSchedule{Name: s.name, Action: "create", DryRun: t.Bool("dry-run"), set: s}
		if gone[s.name] {
			if do.Action, do.Changes, err = t.compareSchedule(s); err != nil {
				return nil, err
			}
		}
		delete(gone, s.name)
		if do.Action == "" {
			continue
		}
		if err := t.checkStep(&do); err != nil {
			return nil, fmt.Errorf("schedule %s: %w", s.name, err)
		}
		plan = append(plan, do)
	}
	if t.Bool("prune") {
		for _, name := range slices.Sorted(maps.Keys(gone)) {
			plan = append(plan, appliedSchedule{Name: name, Action: "delete", DryRun: t.Bool("dry-run")})
		}
	}
	return plan, nil
}

// compareSchedule returns what must be done with a schedule that exists; action is "" if nothing must.
func (t *task) compareSchedule(s *newSchedule) (action string, changes map[string][2]string, err error) {
	page, err := t.pageOfSchedule(s.name)
	if codeOf(err) == exitNothing {
		return "create", nil, nil // it was deleted a moment ago
	}
	if err != nil {
		return "", nil, err
	}
	now, err := settingsOf(page)
	if err != nil {
		return "", nil, err
	}
	if changes = changesOf(now, s.shown); len(changes) == 0 {
		return "", nil, nil
	}
	if _, moved := changes["tube"]; moved {
		return "move", changes, nil
	}
	return "change", changes, nil
}

// timingKeys are the settings with which a schedule begins anew if one of them changes.
var timingKeys = []string{"cron", "every", "tz", "from", "until", "jitter"}

// checkStep finds what the server would refuse in a step of the plan that sets a schedule.
func (t *task) checkStep(do *appliedSchedule) error {
	anew := do.Action != "change" || slices.ContainsFunc(timingKeys, func(key string) bool { _, changes := do.Changes[key]; return changes })
	if anew {
		if err := t.checkTimes(do.set); err != nil {
			return err
		}
	}
	return t.checkBody(do.set)
}

// checkTimes checks that there is a time from now on. The server checks the cron expression and the time
// zone.
func (t *task) checkTimes(s *newSchedule) error {
	now := time.Now()
	var first time.Time
	if every, ok := field.ParseDuration(s.shown["every"]); ok {
		first = firstEvery(every, s.from, now)
	} else {
		var err error
		if first, err = t.firstOfCron(s, now); err != nil {
			return fmt.Errorf("cron %q, tz %q: %w", s.shown["cron"], s.shown["tz"], err)
		}
	}
	if !s.until.IsZero() && (s.until.Before(now) || s.until.Before(first)) {
		return fmt.Errorf("until %s: there is no time from now on", s.until.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// firstEvery returns the first time of a schedule that is set now and whose times are counted from from; zero:
// from now.
func firstEvery(every time.Duration, from, now time.Time) time.Time {
	switch {
	case from.IsZero():
		return now.Add(every)
	case from.After(now):
		return from
	}
	return now.Add(every - now.Sub(from)%every)
}

// firstOfCron returns the first time of a cron expression, zero if it is further from now than a preview
// goes.
func (t *task) firstOfCron(s *newSchedule, now time.Time) (time.Time, error) {
	n := uint(1)
	if s.from.After(now) {
		n = protocol.MaxPreview
	}
	times, err := t.previewExpression(s.shown["cron"], s.shown["tz"], n)
	if err == nil && len(times) == 0 {
		err = errors.New("there is no such time")
	}
	for _, text := range times {
		if first, err := time.Parse(time.RFC3339, text); err != nil || !first.Before(s.from) {
			return first, err
		}
	}
	return time.Time{}, err
}

// checkBody checks the length of a body. A client without the right to read it does not know the limit.
func (t *task) checkBody(s *newSchedule) error {
	if t.maxBody == 0 {
		page, err := t.page("reading the limits of the server", "stats")
		if err != nil && codeOf(err) != exitForbidden {
			return err
		}
		if t.maxBody = maxBodyOf(page); t.maxBody == 0 {
			t.maxBody = math.MaxInt
		}
	}
	if len(s.body) > t.maxBody {
		return fmt.Errorf("body: it has %d bytes, more than the %d of the server's --max-job-size", len(s.body), t.maxBody)
	}
	return nil
}

// apply does one step of the plan, unless this is a dry run, and prints it.
func (t *task) apply(do *appliedSchedule) error {
	if !do.DryRun {
		if err := t.changeTo(do); err != nil {
			return err
		}
	}
	text := do.Action + "d " + do.Name
	if do.DryRun {
		text = "would " + do.Action + " " + do.Name
	}
	if do.Action == "move" {
		text += " to " + do.set.tube
	}
	separator := ": "
	for _, key := range slices.Sorted(maps.Keys(do.Changes)) {
		switch {
		case key == "tube":
			continue // it is said above
		case key == bodyKey:
			text += separator + "body"
		default:
			text += separator + fmt.Sprintf("%s '%s' -> '%s'", key, do.Changes[key][0], do.Changes[key][1])
		}
		separator = ", "
	}
	return t.printDone(do, "%s", text)
}

// changeTo carries out a step of the plan. The tube of a schedule cannot be changed, so it is deleted and set.
func (t *task) changeTo(do *appliedSchedule) error {
	if do.set == nil || do.Action == "move" {
		_, err := t.expect("deleting schedule "+do.Name, "DELETED", "delete-schedule "+do.Name)
		if err != nil && codeOf(err) != exitNothing {
			return err
		}
	}
	if do.set == nil {
		return nil
	}
	err := t.setSchedule(do.set)
	if err != nil && do.Action == "move" {
		return fmt.Errorf("%w; it was deleted from its tube before: apply the file again", err)
	}
	return err
}
