package server

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/sight"
)

// canary is a hidden value in all that the jobs of these tests contain, and content a value beside it that is not hidden.
const (
	canary    = "C4N4RY"
	content   = "C0NTENT"
	leakyBody = `{"content":"` + content + `","secret":"` + canary + `"}`
)

// leaky are jobs in each state that have all that a job can contain, the record of one, and a schedule.
type leaky struct{ ready, delayed, buried, ended string }

// putLeaky puts them into the tube t.
func (g *accessHarness) putLeaky() (all leaky) {
	g.Helper()
	g.root.send("use t", "watch t", "ignore default", "set-policy t keep:1h")
	g.root.discardReplies()
	put := func() (id string) {
		id = strings.TrimPrefix(g.root.ask(fmt.Sprintf("put 0 0 60 %d key:k%d batch:b meta:secret=%s meta:json=%s\r\n%s", len(leakyBody), time.Now().UnixNano(), canary, quoted(leakyBody), leakyBody)), "INSERTED ")
		time.Sleep(time.Second) // the next one has another key
		g.root.send("reserve-job "+id, fmt.Sprintf("checkpoint %s %d\r\n%s", id, len(leakyBody), leakyBody), "touch "+id+" progress:"+quoted(leakyBody))
		g.root.discardReplies()
		return id
	}
	all = leaky{ready: put(), delayed: put(), buried: put(), ended: put()}
	g.root.send("release "+all.ready+" 0 0 reason:"+quoted(leakyBody), "release "+all.delayed+" 0 3600 reason:"+quoted(leakyBody), "bury "+all.buried+" 0 reason:"+quoted(leakyBody),
		fmt.Sprintf("finish %s %d\r\n%s", all.ended, len(leakyBody), leakyBody),
		fmt.Sprintf("set-schedule s t 0 60 %d every:1h meta:secret=%s\r\n%s", len(leakyBody), canary, leakyBody))
	g.root.discardReplies()
	return all
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// commands returns all commands of a verb about these jobs that look at something.
func (all leaky) commands(v protocol.Verb) (commands []string) {
	of := map[protocol.Verb][]string{
		protocol.ListJobs:    {"list-jobs t ready", "list-jobs t delayed", "list-jobs t buried"},
		protocol.ListEnded:   {"list-ended t", "list-ended batch:b"},
		protocol.GetSchedule: {"get-schedule s"}, protocol.StatsBatch: {"stats-batch b"}, protocol.ListMembers: {"list-members b"},
		protocol.PeekReady: {"peek-ready"}, protocol.PeekDelayed: {"peek-delayed"}, protocol.PeekBuried: {"peek-buried"},
	}[v]
	if of == nil {
		of = []string{samples[v].command}
	}
	for _, command := range of {
		for _, id := range []string{all.ready, all.delayed, all.buried, all.ended} {
			commands = append(commands, strings.NewReplacer("{id}", id, "{key}", "k").Replace(command))
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

var base64Word = regexp.MustCompile(`[A-Za-z0-9+/]{16,}=*`)

// decoded returns a reply with all that is base64 in it decoded behind it.
func decoded(reply string) string {
	for _, word := range base64Word.FindAllString(reply, -1) {
		if text, err := base64.StdEncoding.DecodeString(word); err == nil {
			reply += "\n" + string(text)
		}
	}
	return reply
}

// TestNothingLeaks sends all commands that look at something. To who may only list, no reply says what a job contains; to who may
// read, none has a value that is hidden from all but administrators. They see it, and so the test would.
func TestNothingLeaks(t *testing.T) {
	hides, err := sight.ParseRedaction("/secret")
	if err != nil {
		t.Fatal(err)
	}
	users := user("lister", `"*"`, "list") + user("reader", `"*"`, "read") + user("worker", "t", "read, work") +
		"- {name: mixed, secrets: [\"" + userSecretHash + "\"], rights: [{tubes: [\"*\"], may: [read]}, {tubes: [other], may: [admin]}]}\n" +
		"- {name: chief, secrets: [\"" + userSecretHash + "\"], rights: [{tubes: [\"*\"], may: [read]}, {tubes: [t], may: [admin]}]}\n"
	withRedaction(t, hides, users, func(g *accessHarness) {
		all := g.putLeaky()
		shown := make(map[string][]string) // by user: the commands whose replies have the canary
		for _, name := range []string{"lister", "reader", "worker", "mixed", "chief", rootUser} {
			c := g.as(name)
			c.send("use t")
			c.allLines()
			for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
				if v.Spec().Need.One&(access.List|access.Read) == 0 || v == protocol.Use {
					continue
				}
				for _, command := range all.commands(v) {
					c.send(command)
					reply := decoded(c.allLines())
					if strings.Contains(reply, canary) {
						shown[name] = append(shown[name], command)
					}
					if name == "lister" && strings.Contains(reply, content) {
						t.Errorf("%s tells a lister what a job contains:\n%s", command, reply)
					}
					if name == "reader" && strings.Contains(reply, "[redacted]") {
						shown["[redacted]"] = append(shown["[redacted]"], command)
					}
				}
			}
			c.close()
		}
		checkpoints := all.commands(protocol.GetCheckpoint)[:3]
		for name, want := range map[string][]string{"lister": nil, "reader": nil, "mixed": nil, "worker": checkpoints, "chief": shown[rootUser], "[redacted]": shown[rootUser]} {
			if !slices.Equal(shown[name], want) {
				t.Errorf("%s is shown values by\n%q\nwant\n%q", name, shown[name], want)
			}
		}
		var verbs []string
		for _, command := range shown[rootUser] {
			verbs = append(verbs, strings.Fields(command)[0])
		}
		if got, want := strings.Join(slices.Compact(verbs), " "), "peek peek-ready peek-delayed peek-buried wait-job get-checkpoint stats-job stats-ended list-jobs list-ended get-schedule list-members"; got != want {
			t.Errorf("root is shown values by %s\nwant %s", got, want)
		}
	})
}
