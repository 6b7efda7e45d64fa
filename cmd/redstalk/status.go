package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"redstalk/protocol/client"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Action: withConn(noArguments, status),
		Usage:       "show on one screen whether the server and its tubes are well",
		Description: "Lists jobs whose workers probably hang: they have touched them for more than ten times the TTR, and reported neither a progress nor a checkpoint. Then it lists tubes that are paused, have buried jobs, or have ready jobs of which none is reserved while nobody waits for one. Ready dead letters are only counted: tubes that a policy names as dead, or whose first ready job is one, need no worker. If anything is listed, or the server drains or refuses puts, the exit code is 8.",
		Flags:       []cli.Flag{filterFlag()},
	}
}

// serverStatus is what status shows.
type serverStatus struct {
	Server      string        `json:"server"`
	Version     string        `json:"version"`
	Uptime      uint64        `json:"uptime"` // seconds
	Draining    bool          `json:"draining"`
	PutsRefused string        `json:"puts_refused,omitempty"` // why the store takes no puts
	Connections uint64        `json:"connections"`
	Workers     uint64        `json:"workers"`
	Tubes       int           `json:"tubes"`
	Ready       uint64        `json:"ready"`
	DeadLetters uint64        `json:"dead_letters"` // ready jobs in tubes for dead letters that nobody works on
	Reserved    uint64        `json:"reserved"`
	Delayed     uint64        `json:"delayed"`
	Buried      uint64        `json:"buried"`
	Hung        []hungJob     `json:"hung,omitempty"` // jobs whose workers probably hang
	Trouble     []tubeTrouble `json:"trouble"`
}

// hungJob is a line of list-hung.
type hungJob struct {
	ID   uint64 `yaml:"id" json:"id"`
	Tube string `yaml:"tube" json:"tube"`
	TTR  uint64 `yaml:"ttr" json:"ttr"`
	Held int64  `yaml:"held-ms" json:"held_ms"`
}

// hungJobs returns the jobs whose workers probably hang, in tubes that --filter admits.
func (t *task) hungJobs() ([]hungJob, error) {
	if has, err := t.supports("take-back"); err != nil || !has {
		return nil, err
	}
	page, err := t.page("asking for hung jobs", "list-hung")
	if err != nil {
		return nil, err
	}
	var in struct{ Jobs []hungJob }
	if err := yaml.Unmarshal([]byte(page), &in); err != nil {
		return nil, fmt.Errorf("reading a page of list-hung: %w", err)
	}
	return slices.DeleteFunc(in.Jobs, func(j hungJob) bool { return !matches(t.String("filter"), j.Tube) }), nil
}

// addHung adds jobs whose workers probably hang, those that are held longest first.
func (s *serverStatus) addHung(all []hungJob) {
	slices.SortStableFunc(all, func(a, b hungJob) int { return cmp.Compare(b.Held, a.Held) })
	s.Hung = all
	trouble := []tubeTrouble{}
	for _, j := range all {
		what := fmt.Sprintf("job %d is held for %s, its TTR is %s; see redstalk take-back", j.ID, formatSeconds(j.Held/1000), formatSeconds(int64(j.TTR)))
		trouble = append(trouble, tubeTrouble{j.Tube, what, troubleHung, 0})
	}
	s.Trouble = append(trouble, s.Trouble...)
}

// maxTrouble is how many lines about tubes are printed, so that all fits on a screen of 24 lines.
const maxTrouble = 15

// The kinds of trouble.
const (
	troublePaused   = "paused"
	troubleBuried   = "buried"
	troubleNoWorker = "no worker"
	troubleHung     = "hung"
)

// tubeTrouble is a tube with what is wrong.
type tubeTrouble struct {
	Tube string `json:"tube"`
	What string `json:"what"`

	kind string
	size uint64 // jobs that are concerned; the largest come first
}

func status(t *task) error {
	page, err := t.page("asking for the server's statistics", "stats")
	if err != nil {
		return err
	}
	all, err := t.allTubes()
	if err != nil {
		return err
	}
	dead, err := t.idleDeadLetters(all)
	if err != nil {
		return err
	}
	s := statusOf(page, all, dead)
	s.Server = t.String("server")
	hung, err := t.hungJobs()
	if err != nil {
		return err
	}
	s.addHung(hung)
	if err := t.result(s, s.print); err != nil {
		return err
	}
	if s.Draining || s.PutsRefused != "" || len(s.Trouble) > 0 {
		return failure{exitTrouble, fmt.Errorf("")}
	}
	return nil
}

// idleDeadLetters returns which of the tubes that nobody works on are for dead letters.
func (t *task) idleDeadLetters(all []tubeStats) (map[string]bool, error) {
	dead := make(map[string]bool)
	if has, err := t.supports("list-jobs"); err != nil || !has || !slices.ContainsFunc(all, tubeStats.lacksWorkers) {
		return dead, err
	}
	targets, err := t.deadLetterTubes()
	if err != nil {
		return dead, err
	}
	for i := range all {
		name := all[i].Name
		if !all[i].lacksWorkers() {
			continue
		}
		if dead[name] = targets[name]; !dead[name] {
			if dead[name], err = t.firstIsDeadLetter(name, "ready"); err != nil {
				return dead, err
			}
		}
	}
	return dead, nil
}

// statusOf returns what follows from the statistics of a server and its tubes; dead are the idle ones for dead letters.
func statusOf(page client.Page, all []tubeStats, dead map[string]bool) *serverStatus {
	s := &serverStatus{
		Version: "beanstalkd", Uptime: numberOf(page, "uptime"), Connections: numberOf(page, "current-connections"), Workers: numberOf(page, "current-workers"),
		Tubes: len(all), Trouble: []tubeTrouble{},
	}
	if version, ok := page.Value("redstalk-version"); ok {
		s.Version = "redstalk " + unquoted(version)
	} else if version, ok := page.Value("version"); ok {
		s.Version += " " + unquoted(version)
	}
	draining, _ := page.Value("draining")
	s.Draining = draining == "true"
	refused, _ := page.Value("redstalk-puts-refused")
	s.PutsRefused = unquoted(refused)
	for i := range all {
		one := &all[i]
		s.Ready, s.Reserved, s.Delayed, s.Buried = s.Ready+one.Ready, s.Reserved+one.Reserved, s.Delayed+one.Delayed, s.Buried+one.Buried
		if dead[one.Name] {
			s.DeadLetters += one.Ready
		}
		s.Trouble = append(s.Trouble, one.trouble(dead[one.Name])...)
	}
	slices.SortStableFunc(s.Trouble, func(a, b tubeTrouble) int { return cmp.Compare(b.size, a.size) })
	return s
}

// lacksWorkers reports whether a tube has ready jobs and nobody who takes or has taken one.
func (s tubeStats) lacksWorkers() bool {
	return s.Ready > 0 && s.Reserved == 0 && s.Waiting == 0 && s.Paused == 0
}

// trouble returns what is wrong with a tube, which can be one for dead letters.
func (s *tubeStats) trouble(isDead bool) (all []tubeTrouble) {
	if s.Paused > 0 {
		all = append(all, tubeTrouble{s.Name, "paused for " + formatSeconds(int64(s.Paused)), troublePaused, s.Ready})
	}
	if s.Buried > 0 {
		all = append(all, tubeTrouble{s.Name, grouped(s.Buried) + " buried", troubleBuried, s.Buried})
	}
	if s.lacksWorkers() && !isDead {
		all = append(all, tubeTrouble{s.Name, grouped(s.Ready) + " ready, and no worker", troubleNoWorker, s.Ready})
	}
	return all
}

func (s *serverStatus) print(w io.Writer) error {
	draining := ""
	if s.Draining {
		draining = ", drains: it refuses puts"
	}
	if s.PutsRefused != "" {
		draining += "\nputs are refused: " + s.PutsRefused
	}
	dead := ""
	if s.DeadLetters > 0 {
		dead = " (" + grouped(s.DeadLetters) + " of them dead letters)"
	}
	_, err := fmt.Fprintf(w, "%s at %s, up %s%s\n%s, %s, %s\n%s ready%s, %s reserved, %s delayed, %s buried\n",
		s.Version, s.Server, time.Duration(s.Uptime)*time.Second, draining,
		nounFor(s.Tubes, "tube"), nounFor(s.Connections, "connection"), nounFor(s.Workers, "worker"),
		grouped(s.Ready), dead, grouped(s.Reserved), grouped(s.Delayed), grouped(s.Buried))
	if err != nil || len(s.Trouble) == 0 {
		return outputError(err)
	}
	b := &table{head: []string{"TUBE", "TROUBLE"}, left: 2}
	for _, one := range s.Trouble[:min(len(s.Trouble), maxTrouble)] {
		b.add(one.Tube, one.What)
	}
	if err := b.print(w); err != nil || len(s.Trouble) <= maxTrouble {
		return err
	}
	counts := make(map[string]int)
	for _, one := range s.Trouble {
		counts[one.kind]++
	}
	_, err = fmt.Fprintf(w, "and %s more; of all, %d are paused, %d have buried jobs, %d have no worker: --filter or --json shows them\n",
		grouped(uint64(len(s.Trouble)-maxTrouble)), counts[troublePaused], counts[troubleBuried], counts[troubleNoWorker])
	return outputError(err)
}
