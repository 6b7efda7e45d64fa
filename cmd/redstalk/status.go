package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Action: withConn(noArguments, status),
		Usage:       "show on one screen whether the server and its tubes are well",
		Description: "Lists tubes that are paused, have buried jobs, or have ready jobs of which none is reserved while nobody waits for one; so dead letters are listed until they are replayed. If there is one, or the server drains, the exit code is 8.",
		Flags:       []cli.Flag{filterFlag()},
	}
}

// serverStatus is what status shows.
type serverStatus struct {
	Server      string        `json:"server"`
	Version     string        `json:"version"`
	Uptime      uint64        `json:"uptime"` // seconds
	Draining    bool          `json:"draining"`
	Connections uint64        `json:"connections"`
	Workers     uint64        `json:"workers"`
	Tubes       int           `json:"tubes"`
	Ready       uint64        `json:"ready"`
	Reserved    uint64        `json:"reserved"`
	Delayed     uint64        `json:"delayed"`
	Buried      uint64        `json:"buried"`
	Trouble     []tubeTrouble `json:"trouble"`
}

// tubeTrouble is a tube with what is wrong.
type tubeTrouble struct {
	Tube string `json:"tube"`
	What string `json:"what"`
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
	s := statusOf(page, all)
	s.Server = t.String("server")
	if err := t.result(s, s.print); err != nil {
		return err
	}
	if s.Draining || len(s.Trouble) > 0 {
		return failure{exitTrouble, fmt.Errorf("")}
	}
	return nil
}

// statusOf returns what follows from the statistics of a server and its tubes.
func statusOf(page client.Page, all []tubeStats) *serverStatus {
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
	for i := range all {
		one := &all[i]
		s.Ready, s.Reserved, s.Delayed, s.Buried = s.Ready+one.Ready, s.Reserved+one.Reserved, s.Delayed+one.Delayed, s.Buried+one.Buried
		for _, what := range one.trouble() {
			s.Trouble = append(s.Trouble, tubeTrouble{one.Name, what})
		}
	}
	return s
}

// trouble returns what is wrong with a tube.
func (s *tubeStats) trouble() (all []string) {
	if s.Paused > 0 {
		all = append(all, "paused for "+formatSeconds(int64(s.Paused)))
	}
	if s.Buried > 0 {
		all = append(all, grouped(s.Buried)+" buried")
	}
	if s.Ready > 0 && s.Reserved == 0 && s.Waiting == 0 && s.Paused == 0 {
		all = append(all, grouped(s.Ready)+" ready, and no worker")
	}
	return all
}

func (s *serverStatus) print(w io.Writer) error {
	draining := ""
	if s.Draining {
		draining = ", drains: it refuses puts"
	}
	_, err := fmt.Fprintf(w, "%s at %s, up %s%s\n%s, %s, %s\n%s ready, %s reserved, %s delayed, %s buried\n",
		s.Version, s.Server, time.Duration(s.Uptime)*time.Second, draining,
		nounFor(s.Tubes, "tube"), nounFor(s.Connections, "connection"), nounFor(s.Workers, "worker"),
		grouped(s.Ready), grouped(s.Reserved), grouped(s.Delayed), grouped(s.Buried))
	if err != nil || len(s.Trouble) == 0 {
		return outputError(err)
	}
	b := &table{head: []string{"TUBE", "TROUBLE"}, left: 2}
	for _, one := range s.Trouble {
		b.add(one.Tube, one.What)
	}
	return b.print(w)
}
