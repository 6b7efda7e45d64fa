package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The chaos has schedules, too, which put a job each second. Whatever happens to instances and to Redis, each
// second has exactly one job in the end: a put and the place of its schedule are one step.

const (
	chaosSchedules = 10
	scheduledTube  = "of-schedules" // nobody else takes jobs from it
)

// setSchedules sets the schedules. They put all that was missed.
func (c *chaos) setSchedules() {
	a := dial(c.t, c.instances[0].addr)
	for i := range chaosSchedules {
		a.ask(fmt.Sprintf("set-schedule every-second-%d %s 0 60 1 every:1s overlap:allow catch-up-all:1000\r\nx\r\n", i, scheduledTube), "SET")
	}
}

// checkSchedules stops the schedules, removes their jobs, and checks that there is one for each second.
func (c *chaos) checkSchedules() {
	c.t.Helper()
	a := dial(c.t, c.instances[0].addr)
	for i := range chaosSchedules {
		a.ask(fmt.Sprintf("pause-schedule every-second-%d\r\n", i), "PAUSED")
	}
	got := takeScheduled(a)
	for i := range chaosSchedules {
		name := fmt.Sprint("every-second-", i)
		times := got[name]
		slices.Sort(times)
		for n := 1; n < len(times); n++ {
			if times[n] != times[n-1]+1000 {
				c.t.Errorf("the job of %s for %d comes after that for %d", name, times[n], times[n-1])
			}
		}
		page := a.page("get-schedule " + name)
		if put := fmt.Sprintf("put: %d\n", len(times)); len(times) == 0 || !strings.Contains(page, put) || !strings.Contains(page, "missed: 0\n") {
			c.t.Errorf("%d jobs of\n%s", len(times), page)
		}
		a.ask("delete-schedule "+name+"\r\n", "DELETED")
	}
	c.t.Logf("%d schedules have put a job for each of %d seconds", chaosSchedules, len(got["every-second-0"]))
}

// takeScheduled removes the jobs of the schedules, and returns for which times they were put, in ms, by
// schedule.
func takeScheduled(a *client) map[string][]int64 {
	got := make(map[string][]int64)
	a.ask("watch "+scheduledTube+"\r\nignore default\r\n", "WATCHING 2", "WATCHING 1")
	for {
		a.send("reserve-batch 500 0 info\r\n")
		var n int
		fmt.Sscanf(a.line(), "RESERVED_BATCH %d", &n)
		if n == 0 {
			return got
		}
		ids := ""
		for range n {
			ids += " " + strings.Fields(a.line())[1]
			a.line() // the body
			var info struct {
				Schedule string
				Nominal  int64 `json:"nominal-ms"`
			}
			if err := json.Unmarshal([]byte(a.line()), &info); err != nil {
				a.t.Fatal(err)
			}
			got[info.Schedule] = append(got[info.Schedule], info.Nominal)
		}
		a.ask("delete-batch"+ids+"\r\n", fmt.Sprintf("DELETED_BATCH %d 0", n))
	}
}
