package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

func schedulesCommand() *cli.Command {
	var tags strings.Builder
	for _, tag := range protocol.TagsIn(field.InSchedule) {
		fmt.Fprintf(&tags, " %s:%s", tag.Name, tag.Kind)
	}
	return &cli.Command{
		Name: "schedules", Action: withConn(anyNumber, schedules),
		ArgsUsage: "[set NAME TAG:VALUE... | get|delete|pause|resume|run NAME | preview NAME|EXPRESSION | apply FILE]",
		Usage:     "list the schedules, or set, show, delete, pause, resume, run or preview one, or make them those of a YAML file (extension schedules)",
		Description: "set puts jobs with the body of --body or of standard input. Tags:" + tags.String() + ". Example: redstalk schedules set nightly 'cron:30 2 * * *' tz:Europe/Berlin -t reports --body all. " +
			"A TIME is as that of put --at. The tube of a schedule cannot be changed: delete it first. " +
			"apply creates, changes, moves and deletes schedules until the server has those of FILE, and prints what it has done; - is standard input.",
		Flags: []cli.Flag{
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 10, Usage: "preview: show `N` times"},
			&cli.StringFlag{Name: "tz", Usage: "set, preview: the time `ZONE` of the expression; UTC by default"},
			&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Value: "default", Usage: "set: `TUBE` of the jobs"},
			&cli.UintFlag{Name: "pri", Aliases: []string{"p"}, Value: defaultPri, Usage: "set: `PRI` of the jobs"},
			durationFlag("ttr", defaultTTR, "set: `DURATION` that a worker may take, in whole seconds"),
			&cli.StringFlag{Name: "body", Usage: "set: `BODY` of the jobs, instead of standard input"},
			&cli.BoolFlag{Name: "dry-run", Usage: "apply: only print what would be done"},
			&cli.BoolFlag{Name: "prune", Value: true, Usage: "apply: delete schedules that are not in the file; --prune=false leaves them"},
		},
	}
}

// The defaults of the jobs of a schedule.
const (
	defaultPri = 1024
	defaultTTR = time.Minute
)

// scheduleActions are the first arguments of the command, with the functions, how many more arguments
// they take, and those of the flags that only some actions take.
var scheduleActions = map[string]struct {
	arguments
	do    func(t *task, args []string) error
	flags []string
}{
	"set":     {arguments{2, -1}, setOneSchedule, []string{"tz", "tube", "pri", "ttr", "body"}},
	"get":     {arguments{1, 1}, getSchedule, nil},
	"delete":  {arguments{1, 1}, changeSchedule("deleting", "DELETED", "delete"), nil},
	"pause":   {arguments{1, 1}, changeSchedule("pausing", "PAUSED", "pause"), nil},
	"resume":  {arguments{1, 1}, changeSchedule("resuming", "RESUMED", "resume"), nil},
	"run":     {arguments{1, 1}, runSchedule, nil},
	"preview": {arguments{1, 1}, previewSchedule, []string{"count", "tz"}},
	"apply":   {arguments{1, 1}, applySchedules, []string{"dry-run", "prune"}},
}

func schedules(t *task) error {
	args := t.Args().Slice()
	name, do := "the list", func(t *task, _ []string) error { return listSchedules(t) }
	var flags []string
	if len(args) > 0 {
		action, known := scheduleActions[args[0]]
		name, do, flags, args = args[0], action.do, action.flags, args[1:]
		if !known || len(args) < action.least || action.most >= 0 && len(args) > action.most {
			return usage("schedules needs no argument, or %s", t.Command.ArgsUsage)
		}
	}
	for _, flag := range t.Command.Flags {
		if flag := flag.Names()[0]; t.IsSet(flag) && !slices.Contains(flags, flag) {
			return usage("%s does not take --%s", name, flag)
		}
	}
	if err := t.require("schedules", "schedules"); err != nil {
		return err
	}
	return do(t, args)
}

// scheduleStats is a schedule as list-schedules shows it.
type scheduleStats struct {
	Name        string `json:"name"`
	Tube        string `json:"tube"`
	Cron        string `json:"cron,omitempty"`
	Every       string `json:"every,omitempty"`
	Zone        string `json:"tz,omitempty" yaml:"tz"`
	Paused      bool   `json:"paused"`
	NextMs      int64  `json:"next-ms" yaml:"next-ms"` // 0: there is none
	DueMs       int64  `json:"due-ms" yaml:"due-ms"`
	LastMs      int64  `json:"last-ms" yaml:"last-ms"`
	Put         uint64 `json:"put"`
	Overlapped  uint64 `json:"overlapped"`
	Refused     uint64 `json:"refused"`
	Missed      uint64 `json:"missed"`
	Stopped     uint64 `json:"stopped"`
	LastPutMs   int64  `json:"last-put-ms" yaml:"last-put-ms"`
	LastNominal int64  `json:"last-nominal-ms" yaml:"last-nominal-ms"`
	LastID      uint64 `json:"last-id" yaml:"last-id"`
	LastResult  string `json:"last-result" yaml:"last-result"`
}

// row returns the cells of a schedule in the table.
func (s *scheduleStats) row() []string {
	when, next := s.Cron, "-"
	if when == "" {
		when = "every " + s.Every
	}
	switch {
	case s.Paused:
		next = "paused"
	case s.NextMs > 0:
		next = time.UnixMilli(s.NextMs).Format("2006-01-02 15:04:05 -0700")
	}
	return []string{
		s.Name, s.Tube, oneLine(when), dash(s.Zone, ""), next, dash(s.LastResult, "none"), fmt.Sprint(s.Put), fmt.Sprint(s.Overlapped + s.Refused + s.Missed + s.Stopped),
	}
}

func listSchedules(t *task) error {
	b := &table{head: []string{"SCHEDULE", "TUBE", "TIMES", "ZONE", "NEXT", "LAST RESULT", "PUT", "SKIPPED"}, left: 6}
	return printListed(t, b, "listing schedules", "list-schedules", "schedules", func(s *scheduleStats) (any, []string) { return s, s.row() })
}

// checkSchedule checks the name of a schedule.
func checkSchedule(name string) error {
	if !protocol.ValidSchedule([]byte(name)) {
		return usage("%q is not the name of a schedule: that of a tube, of at most %d bytes", name, protocol.MaxSchedule)
	}
	return nil
}

// setOneSchedule is the action set.
func setOneSchedule(t *task, args []string) error {
	if err := checkSchedule(args[0]); err != nil {
		return err
	}
	s := scheduleNamed(args[0])
	s.tube, s.pri, s.ttr, s.body = t.tube(), uint64(t.Uint("pri")), wholeSeconds(t.duration("ttr")), []byte(t.String("body"))
	if t.IsSet("tz") {
		args = append(args, "tz:"+t.String("tz"))
	}
	for _, arg := range args[1:] {
		name, value, found := strings.Cut(arg, ":")
		if !found {
			return usage("%q is not TAG:VALUE", arg)
		}
		if key, text, isMeta := strings.Cut(value, "="); isMeta && name == "meta" {
			s.words = append(s.words, metaWord(key, unquoted(text)))
		} else if err := s.setTag(name, unquoted(value)); err != nil {
			return usage("%s: %v", arg, err)
		}
	}
	if err := s.check(); err != nil {
		return usage("%v", err)
	}
	if !t.IsSet("body") {
		var err error
		if s.body, err = readAll(t); err != nil {
			return err
		}
	}
	if err := t.setSchedule(s); err != nil {
		return err
	}
	return t.printDone(map[string]any{"set": s.name}, "schedule %s set", s.name)
}

// tagWord returns the value of a tag as it is sent: in quotes if it needs them.
func tagWord(value string) string {
	if checkWord("", value) != nil || value[0] == '"' {
		return protocol.Quote(value)
	}
	return value
}

// setSchedule sends a set-schedule.
func (t *task) setSchedule(s *newSchedule) error {
	doing := "setting schedule " + s.name
	r, err := t.request(doing, s.command())
	if err == nil && string(r.Line) != "SET" {
		err = replyError(doing, r)
		if string(r.Line) == "BAD_FORMAT" {
			err = fmt.Errorf("%w: %s", err, t.reasonOf(s))
		}
	}
	return err
}

// reasonOf says why the server has refused a schedule with BAD_FORMAT.
func (t *task) reasonOf(s *newSchedule) string {
	page, err := t.pageOfSchedule(s.name)
	if now, ok := page.Value("tube"); err == nil && ok && unquoted(now) != s.tube {
		return fmt.Sprintf("its tube is %s, and cannot be changed: delete the schedule first", unquoted(now))
	}
	return "the expression or the time zone is invalid, or there is no such time"
}

func getSchedule(t *task, args []string) error {
	page, err := t.pageOfSchedule(args[0])
	if err != nil {
		return err
	}
	return t.printPage(page)
}

// pageOfSchedule returns the page of a schedule.
func (t *task) pageOfSchedule(name string) (client.Page, error) {
	if err := checkSchedule(name); err != nil {
		return "", err
	}
	return t.page("reading schedule "+name, "get-schedule "+name)
}

// changeSchedule returns an action that is a command with the name of a schedule, whose reply is done.
func changeSchedule(doing, done, command string) func(t *task, args []string) error {
	return func(t *task, args []string) error {
		name := args[0]
		if err := checkSchedule(name); err != nil {
			return err
		}
		if _, err := t.expect(doing+" schedule "+name, done, command+"-schedule "+name); err != nil {
			return err
		}
		return t.printDone(map[string]any{strings.ToLower(done): name}, "schedule %s %s", name, strings.ToLower(done))
	}
}

func runSchedule(t *task, args []string) error {
	if err := checkSchedule(args[0]); err != nil {
		return err
	}
	doing := "running schedule " + args[0]
	r, err := t.request(doing, "run-schedule "+args[0])
	if err != nil {
		return err
	}
	return t.printPut(doing, r, new(putOptions))
}

func previewSchedule(t *task, args []string) error {
	n := t.Uint("count")
	if n < 1 || n > protocol.MaxPreview {
		return usage("--count must be from 1 to %d", protocol.MaxPreview)
	}
	of, zone := args[0], t.String("tz")
	preview := func() ([]string, error) { return t.previewExpression(of, zone, n) }
	if !strings.ContainsAny(of, " @") {
		if err := checkSchedule(of); err != nil {
			return err
		}
		if zone != "" {
			return usage("--tz is for an expression: the schedule %s has a time zone of its own", of)
		}
		preview = func() ([]string, error) {
			return t.names("previewing "+of, fmt.Sprintf("preview-schedule %s %d", of, n))
		}
	}
	times, err := preview()
	if err != nil {
		return err
	}
	return t.result(times, func(w io.Writer) error { return printNames(w, times) })
}

// previewExpression returns the next times of a cron expression in a time zone, "" for UTC.
func (t *task) previewExpression(expression, zone string, n uint) ([]string, error) {
	doing, command := "previewing "+expression, fmt.Sprintf("preview-schedule %s %d", protocol.Quote(expression), n)
	if zone != "" {
		command += " tz:" + tagWord(zone)
	}
	r, err := t.request(doing, command)
	if err != nil {
		return nil, err
	}
	if r.Word != client.OK {
		if err = replyError(doing, r); string(r.Line) == "BAD_FORMAT" {
			err = fmt.Errorf("%w: the expression or the time zone is invalid", err)
		}
		return nil, err
	}
	return itemsOf(client.Page(r.Body)), nil
}
