package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/sight"
	"redstalk/storage"
	"redstalk/tools/engines"
)

// userSecret is the secret of all users in these tests, and userSecretHash its hash. Comparing with it
// takes about ten microseconds: a hundredth of what the cheapest hash of bcrypt takes.
const (
	userSecret     = "open sesame"
	userSecretHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHkgc2FsdA$YWaUwXJtHAPLvOs530wNFZdbmpH8o9kbArqNFS2brG0"
)

// user returns a line of a file of users.
func user(name, tubes, may string) string {
	return fmt.Sprintf("- {name: %q, secrets: [%q], rights: [{tubes: [%s], may: [%s]}]}\n", name, userSecretHash, tubes, may)
}

// accessHarness is a harness with a file of users.
type accessHarness struct {
	*harness
	access *access.Access
	path   string
	log    *bytes.Buffer
	root   *client // may do everything
	skip   protocol.Verb
}

const rootUser = "root"

// withUsers runs test with a server that has these users, and root.
func withUsers(t *testing.T, users string, test func(*accessHarness)) {
	t.Helper()
	withRedaction(t, nil, users, test)
}

// withRedaction is withUsers for a server that hides values.
func withRedaction(t *testing.T, hides *sight.Redaction, users string, test func(*accessHarness)) {
	t.Helper()
	withServer(t, func(h *harness) {
		h.server.Shutdown(context.Background())
		h.queue.Close(context.Background())
		g := openWithUsers(h, users, hides)
		test(g)
		g.root.close()
		g.access.Close()
	})
}

// openWithUsers opens a server with users on the store of a harness.
func openWithUsers(h *harness, users string, hides *sight.Redaction) *accessHarness {
	h.Helper()
	g := &accessHarness{harness: h, path: filepath.Join(h.TempDir(), "users.yml"), log: new(bytes.Buffer)}
	g.write(users)
	log := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if g.access, err = access.Open(g.path, hides, log); err != nil {
		h.Fatal(err)
	}
	h.mayPush = func(string) bool { return true }
	h.open(Config{Access: g.access, Log: log})
	g.root = g.as(rootUser)
	return g
}

// write writes the file of users, with root added.
func (g *accessHarness) write(users string) {
	g.Helper()
	text := "users:\n" + user(rootUser, `"*"`, "put, work, look, admin") + users
	if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
}

// rewrite replaces the file of users and loads it, as SIGHUP does.
func (g *accessHarness) rewrite(users string) {
	g.Helper()
	g.write(users)
	if err := g.access.Reload(); err != nil {
		g.Fatal(err)
	}
	synctest.Wait()
}

// as connects and authenticates as a user; with "" it does not authenticate.
func (g *accessHarness) as(name string) *client {
	g.Helper()
	c := g.connect()
	if name != "" {
		c.send("auth " + name + " " + userSecret)
		c.want("AUTHENTICATED")
	}
	return c
}

// discardReplies discards the replies to all commands that were sent before.
func (c *client) discardReplies() {
	c.h.Helper()
	c.send("settle")
	for <-c.lines != "UNKNOWN_COMMAND" {
	}
}

// sample is a command of a verb about the tube t, or about the job {id} in it. The job is ready, has
// the key {key} and, if leased is set, the lease {lease}.
type sample struct {
	before  string // commands that the client sends first, separated by |
	command string
	reply   string // how the reply begins if the client has the right
	leased  bool
}

// samples has a sample for every verb. A new verb needs one, and a row in the table of package access.
var samples = map[protocol.Verb]sample{
	protocol.Put:                {"use t", "put 0 0 60 1\r\nx", "INSERTED", false},
	protocol.Peek:               {"", "peek {id}", "FOUND", false},
	protocol.PeekReady:          {"use t", "peek-ready", "FOUND", false},
	protocol.PeekDelayed:        {"use t", "peek-delayed", "NOT_FOUND", false},
	protocol.PeekBuried:         {"use t", "peek-buried", "NOT_FOUND", false},
	protocol.ReserveWithTimeout: {"watch t|ignore default", "reserve-with-timeout 0", "RESERVED", false},
	protocol.ReserveJob:         {"", "reserve-job {id}", "RESERVED", false},
	protocol.ReserveBatch:       {"watch t|ignore default", "reserve-batch 2", "RESERVED_BATCH", false},
	protocol.ReserveLease:       {"watch t|ignore default", "reserve-lease 0", "LEASED", false},
	protocol.Reserve:            {"watch t|ignore default", "reserve", "RESERVED", false},
	protocol.Delete:             {"", "delete {id}", "DELETED", false},
	protocol.DeleteBatch:        {"", "delete-batch {id} {id}", "DELETED_BATCH 1 1", false},
	protocol.DeleteLease:        {"", "delete-lease {id} {lease}", "DELETED", true},
	protocol.DeleteKey:          {"", "delete-key t {key}", "DELETED", false},
	protocol.Release:            {"reserve-job {id}", "release {id} 0 0", "RELEASED", false},
	protocol.ReleaseLease:       {"", "release-lease {id} {lease} 0 0", "RELEASED", true},
	protocol.Bury:               {"reserve-job {id}", "bury {id} 0", "BURIED", false},
	protocol.BuryLease:          {"", "bury-lease {id} {lease} 0", "BURIED", true},
	protocol.Kick:               {"use t", "kick 1", "KICKED", false},
	protocol.KickJob:            {"", "kick-job {id}", "NOT_FOUND", false}, // the job is ready
	protocol.Touch:              {"reserve-job {id}", "touch {id}", "TOUCHED", false},
	protocol.TouchLease:         {"", "touch-lease {id} {lease}", "TOUCHED", true},
	protocol.Checkpoint:         {"reserve-job {id}", "checkpoint {id} 1\r\nx", "SAVED", false},
	protocol.CheckpointLease:    {"", "checkpoint-lease {id} {lease} 1\r\nx", "SAVED", true},
	protocol.GetCheckpoint:      {"", "get-checkpoint {id}", "NOT_FOUND", false}, // the job has none
	protocol.StatsJob:           {"", "stats-job {id}", "OK", false},
	protocol.StatsTube:          {"", "stats-tube t", "OK", false},
	protocol.Stats:              {"", "stats", "OK", false},
	protocol.Use:                {"", "use t", "USING t", false},
	protocol.Watch:              {"", "watch t", "WATCHING 2", false},
	protocol.Ignore:             {"", "ignore t", "WATCHING 1", false},
	protocol.ListTubesWatched:   {"", "list-tubes-watched", "OK", false},
	protocol.ListTubeUsed:       {"", "list-tube-used", "USING default", false},
	protocol.ListTubes:          {"", "list-tubes", "OK", false},
	protocol.Quit:               {"", "quit", "", false},
	protocol.PauseTube:          {"", "pause-tube t 0", "PAUSED", false},
	protocol.Drain:              {"", "drain", "DRAINING", false},
	protocol.Undrain:            {"", "undrain", "NOT_DRAINING", false},
	protocol.Capabilities:       {"", "capabilities", "OK", false},
	protocol.Reschedule:         {"", "reschedule {id} 1s", "RESCHEDULED", false},
	protocol.SetPriority:        {"", "set-priority {id} 7", "UPDATED", false},
	protocol.SetPolicy:          {"", "set-policy t max:100000 keep:1h", "SET", false},
	protocol.GetPolicy:          {"", "get-policy t", "OK", false},
	protocol.ListPolicies:       {"", "list-policies", "OK", false},
	protocol.ListJobs:           {"", "list-jobs t ready", "OK", false},
	protocol.Find:               {"", "find t {key}", "FOUND", false},
	protocol.FlushTube:          {"", "flush-tube t", "FLUSHED", false},
	protocol.MoveJobs:           {"", "move-jobs t ready t 1", "MOVED 0", false},
	protocol.ReplayJob:          {"", "replay-job {id}", "NOT_FOUND", false},
	protocol.Auth:               {"", "auth nobody x", "UNAUTHORIZED", false},
	protocol.NameClient:         {"", "client a", "NAMED", false},
	protocol.ListClients:        {"", "list-clients", "OK", false},
	protocol.SetGroup:           {"", "set-group t g", "SET", false},
	protocol.GetGroup:           {"", "get-group t g", "NOT_FOUND", false},
	protocol.StatsGroup:         {"", "stats-group t g", "NOT_FOUND", false},
	protocol.ListGroups:         {"", "list-groups t", "OK", false},
	protocol.PauseGroup:         {"", "pause-group t g 0", "PAUSED", false},
	protocol.FlushGroup:         {"", "flush-group t g", "FLUSHED 0", false},
	protocol.SetSchedule:        {"", "set-schedule s t 0 60 1 every:1h\r\nx", "SET", false},
	protocol.GetSchedule:        {"", "get-schedule none", "NOT_FOUND", false},
	protocol.ListSchedules:      {"", "list-schedules", "OK", false},
	protocol.DeleteSchedule:     {"", "delete-schedule none", "NOT_FOUND", false},
	protocol.PauseSchedule:      {"", "pause-schedule none", "NOT_FOUND", false},
	protocol.ResumeSchedule:     {"", "resume-schedule none", "NOT_FOUND", false},
	protocol.RunSchedule:        {"", "run-schedule none", "NOT_FOUND", false},
	protocol.SealBatch:          {"", "seal-batch sealed", "SEALED", false},
	protocol.StatsBatch:         {"", "stats-batch none", "NOT_FOUND", false},
	protocol.ListBatches:        {"", "list-batches", "OK", false},
	protocol.ListMembers:        {"", "list-members none", "OK", false},
	protocol.CancelBatch:        {"", "cancel-batch none", "NOT_FOUND", false},
	protocol.HistoryTube:        {"", "history-tube t hours", "OK", false},
	protocol.History:            {"", "history days 7", "OK", false},
	protocol.Finish:             {"reserve-job {id}", "finish {id} 1\r\nx", "FINISHED", false},
	protocol.FinishLease:        {"", "finish-lease {id} {lease} 1\r\nx", "FINISHED", true},
	protocol.WaitJob:            {"", "wait-job {id} 0", "TIMED_OUT", false},
	protocol.StatsEnded:         {"", "stats-ended {id}", "NOT_FOUND", false}, // the job has not ended
	protocol.ListEnded:          {"", "list-ended t", "OK", false},
	protocol.PreviewSchedule:    {"", `preview-schedule "* * * * *" 1`, "OK", false},
}

// TestEveryVerbIsInTheTable: every verb has a row in the table of rights. Without one it would need
// every right.
func TestEveryVerbIsInTheTable(t *testing.T) {
	for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
		if _, known := access.NeedOf(v.String()); !known {
			t.Errorf("%v has no right in the table of verbs", v)
		}
		if samples[v].command == "" {
			t.Errorf("%v has no sample", v)
		}
	}
}

// TestEveryVerbWithEveryRight sends every verb as users with one right on the tube, on another tube,
// or on all tubes, and unauthenticated. The expected replies follow from the table of rights.
func TestEveryVerbWithEveryRight(t *testing.T) {
	rights := map[string]access.Right{"put": access.Put, "work": access.Work, "list": access.List, "read": access.Read | access.List, "admin": access.Admin}
	for word, right := range rights {
		for _, where := range []struct {
			tubes                string
			on, somewhere, every access.Right
		}{
			{"t", right, right, access.Nothing},
			{"other", access.Nothing, right, access.Nothing},
			{`"*"`, right, right, right},
		} {
			t.Run(word+" on "+where.tubes, func(t *testing.T) {
				t.Parallel()
				withUsers(t, user("u", where.tubes, word), func(g *accessHarness) {
					g.tryAll("u", where.on, where.somewhere, where.every)
				})
			})
		}
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		withUsers(t, "", func(g *accessHarness) { g.tryAll("", access.Nothing, access.Nothing, access.Nothing) })
	})
	t.Run("anonymous", func(t *testing.T) {
		t.Parallel()
		anonymous := "- {name: anonymous, rights: [{tubes: [t], may: [look]}]}\n"
		withUsers(t, anonymous, func(g *accessHarness) { g.tryAll("", access.Read|access.List, access.Read|access.List, access.Nothing) })
	})
}

// TestEveryVerbOnEngines is TestEveryVerbWithEveryRight on the durable engines, in real time, with all
// users in one file.
func TestEveryVerbOnEngines(t *testing.T) {
	atLength(t)
	t.Parallel()
	engines.Each(t, engines.Durable, func(t *testing.T, store storage.Store) {
		all, users := []access.Right{access.Put, access.Work, access.List, access.Admin}, ""
		for _, right := range all {
			word := right.String()
			users += user(word+"-t", "t", word) + user(word+"-other", "other", word) + user(word+"-all", `"*"`, word)
		}
		g := openWithUsers(&harness{T: t, store: &proxyStore{Store: store}}, users, nil)
		g.skip = protocol.Auth // it involves no store, and repeated failures are delayed
		for _, right := range all {
			g.tryAll(right.String()+"-t", right, right, access.Nothing)
			g.tryAll(right.String()+"-other", access.Nothing, right, access.Nothing)
			g.tryAll(right.String()+"-all", right, right, right)
		}
		g.tryAll("", access.Nothing, access.Nothing, access.Nothing)
		g.root.close()
		if err := g.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		g.access.Close()
		g.queue.Close(context.Background())
		store.Close()
	})
}

// tryAll sends every verb as a user who has these rights on the tube t, on some tube, and on all
// tubes.
func (g *accessHarness) tryAll(name string, on, somewhere, every access.Right) {
	g.root.send("use t", "watch t", "watch default", "set-policy t max:100000 keep:1h")
	g.root.discardReplies()
	for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
		if v == g.skip {
			continue
		}
		need, _ := access.NeedOf(v.String())
		has := map[access.Where]access.Right{
			access.OfTube: on, access.OfJob: on, access.OfTubes: somewhere, access.Somewhere: somewhere, access.Everywhere: every,
		}[need.Where]
		if need.Where == access.OfBatch {
			if has = every; somewhere == access.Put { // only who can put somewhere has batches
				has = somewhere
			}
		}
		if isReserve(v) {
			has = on // the client watches no other tube on which it could have rights
		}
		want := samples[v].reply
		switch {
		case need.Met(has) && v == protocol.SetSchedule && has&access.Put == 0:
			want = "FORBIDDEN" // it puts jobs, too
		case need.Met(has):
		case need.Where == access.OfJob && on == access.Nothing && somewhere != access.Nothing && v != protocol.DeleteBatch:
			want = "NOT_FOUND"
		case v == protocol.DeleteBatch && somewhere != access.Nothing:
			want = "DELETED_BATCH 0 2"
		default:
			want = "FORBIDDEN"
		}
		if got := g.try(name, v); !strings.HasPrefix(got, want) || want == "" && got != "" {
			g.Errorf("%v as %q: %q, want %q", v, name, got, want)
		}
	}
}

// try sends a verb about a new job, and returns the first line of the reply, or "" if the connection
// is closed instead.
func (g *accessHarness) try(name string, v protocol.Verb) string {
	s, key, lease := samples[v], "k-"+v.String(), "00000000000000000001"
	// Reserved jobs are flushed first: a job that a closing connection gives back meanwhile is
	// ready at the second flush, or gone.
	g.root.send("undrain", "flush-tube t reserved", "flush-tube t", "flush-tube default")
	g.root.discardReplies()
	id := strings.TrimPrefix(g.root.ask("put 0 0 60 1 key:"+key+"\r\nx"), "INSERTED ")
	if s.leased {
		lease = strings.Fields(g.root.ask("reserve-lease 0"))[2]
		g.root.want("x")
	}
	fill := strings.NewReplacer("{id}", id, "{key}", key, "{lease}", lease)
	c := g.as(name)
	defer c.close()
	if s.before != "" {
		c.send(strings.Split(fill.Replace(s.before), "|")...)
		c.discardReplies()
	}
	c.send(fill.Replace(s.command))
	select {
	case line := <-c.lines:
		return line
	case <-c.ended:
		return ""
	case <-time.After(time.Minute):
		return "nothing"
	}
}

// TestAuth: a client authenticates, as one user and then as another.
func TestAuth(t *testing.T) {
	withUsers(t, user("app", "post", "put"), func(g *accessHarness) {
		c := g.connect()
		// all at once: the commands after auth wait for its result
		c.send("use post", "auth app "+userSecret, "use post", "put 0 0 60 1\r\nx", "put 0 0 60 100000\r\n"+strings.Repeat("x", 100000),
			"auth app no", "put 0 0 60 1\r\nx", "capabilities")
		c.want("FORBIDDEN", "AUTHENTICATED", "USING post", "INSERTED 1", "JOB_TOO_BIG", "UNAUTHORIZED", "INSERTED 2")
		if page := c.allLines(); !strings.Contains(page, "- auth\n") {
			t.Errorf("capabilities:\n%s", page)
		}
		c.send("auth root "+userSecret, "list-tubes-watched", "auth app no", "auth app no", "auth nobody "+userSecret, "list-tube-used")
		c.want("AUTHENTICATED", "OK 14", "---", "- default", "", "UNAUTHORIZED", "UNAUTHORIZED", "UNAUTHORIZED")
		<-c.ended
		c.wantNothing()
		if text := g.log.String(); strings.Contains(text, "sesame") || strings.Contains(text, "user=nobody") {
			t.Errorf("the log:\n%s", text)
		}
	})
	withServer(t, func(h *harness) { // without users
		c := h.connect()
		c.send("auth app x", "auth", "auth app", "auth \x01 x", "authx", "capabilities")
		c.want("UNKNOWN_COMMAND", "UNKNOWN_COMMAND", "UNKNOWN_COMMAND", "UNKNOWN_COMMAND", "UNKNOWN_COMMAND")
		if page := c.allLines(); strings.Contains(page, "auth") {
			t.Errorf("capabilities:\n%s", page)
		}
		c.close()
	})
}

// allLines returns all lines that have come.
func (c *client) allLines() (text string) {
	synctest.Wait()
	for len(c.lines) > 0 {
		text += <-c.lines + "\n"
	}
	return text
}

// TestBodiesOfUnauthenticated: a body that the client may not put is skipped, whatever its size, and uses
// no memory.
func TestBodiesOfUnauthenticated(t *testing.T) {
	withUsers(t, user("app", "post", "put"), func(g *accessHarness) {
		c := g.connect()
		c.send("put 0 0 60 50000\r\n"+strings.Repeat("x", 50000), "put 0 0 60 0\r\n", "put 0 0 60 1\r\nxy\r\nput 0 0 60 1 key:\r\nx")
		c.want("FORBIDDEN", "FORBIDDEN")
		c.sendRaw("put 0 0 60 60000\r\n" + strings.Repeat("x", 50000))
		synctest.Wait()
		if n := g.queue.Bodies().InUse(); n != 0 {
			t.Errorf("%d bodies are in memory", n)
		}
		c.close()
	})
}

// TestPutAfterRefusedUse: after a use that was refused, a job is not put into the tube used before.
func TestPutAfterRefusedUse(t *testing.T) {
	withUsers(t, user("app", "post", "put, look"), func(g *accessHarness) {
		c := g.as("app")
		c.send("use post", "put 0 0 60 1\r\nx", "use secret", "put 0 0 60 1\r\nx", "peek-ready", "use post", "put 0 0 60 1\r\nx")
		c.want("USING post", "INSERTED 1", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "USING post", "INSERTED 2")
		c.send("use secret", "put 0 0 60 1\r\nx")
		c.want("FORBIDDEN", "FORBIDDEN")
		g.rewrite(user("app", "post", "put, admin"))
		c.send("put 0 0 60 1\r\nx", "use post", "kick 1")
		c.want("FORBIDDEN", "USING post", "KICKED 0")
		c.close()
	})
}

// TestRightsOnOtherTubes: a client cannot move jobs into or out of a tube by its rights on another tube.
func TestRightsOnOtherTubes(t *testing.T) {
	withUsers(t, user("app", "post", "put, work, look, admin")+user("both", "post, dead", "put, work, admin")+
		user("head", "post, dead", "put, look, admin")+user("source", "post, dead", "work, look, admin"), func(g *accessHarness) {
		c := g.as("app")
		c.send("use post", "put 0 0 60 1 max:1 dead:dead\r\nx", "set-policy post max:1 dead:dead", "move-jobs post ready dead 1", "move-jobs dead ready post 1",
			"put 0 0 60 1 max:1 dead:post\r\nx")
		c.want("USING post", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "INSERTED 1")
		both := g.as("both")
		both.send("use post", "put 0 0 60 1 max:1 dead:dead\r\nx", "move-jobs post ready dead 1", "set-policy post max:1 dead:dead")
		both.want("USING post", "INSERTED 2", "MOVED 1", "SET")
		for _, lacking := range []string{"head", "source"} { // lacks work on the one tube, or put on the other
			c := g.as(lacking)
			c.send("move-jobs dead ready post 1", "set-policy post max:1 dead:dead", "set-policy post max:1", "move-jobs post ready post 1")
			c.want("FORBIDDEN", "FORBIDDEN", "SET", "MOVED 0")
			c.close()
		}
		c.close()
		both.close()
	})
}

// TestRightsOfReplay: a dead letter can only be sent back by a client that could also move it.
func TestRightsOfReplay(t *testing.T) {
	withUsers(t, user("both", "post, dead", "put, work, admin")+user("dead", "dead", "put, work, admin")+
		user("head", "post, dead", "put, look, admin")+user("source", "post, dead", "work, look, admin"), func(g *accessHarness) {
		both := g.as("both")
		both.send("use post", "put 0 0 60 1 max:1 dead:dead\r\nx", "put 0 0 60 1 max:1\r\nx", "reserve-job 1", "release 1 0 0", "reserve-job 2", "release 2 0 0")
		both.want("USING post", "INSERTED 1", "INSERTED 2", "RESERVED 1 1", "x", "RELEASED", "RESERVED 2 1", "x", "RELEASED")
		for _, lacking := range []string{"dead", "head", "source"} { // lacks admin on the one tube, work on the other, or put on the one
			c := g.as(lacking)
			c.send("replay-job 3", "replay-job 3")
			c.want("FORBIDDEN", "FORBIDDEN")
			c.close()
		}
		head := g.as("head")
		head.send("replay-job 2", "replay-job 2")
		head.want("REPLAYED", "NOT_FOUND")
		head.close()
		both.send("replay-job 3", "replay-job 3")
		both.want("REPLAYED", "NOT_FOUND")
		both.close()
	})
}

// TestPushNeedsWork: only a user with the right to work on a tube can have its jobs sent to a URL.
func TestPushNeedsWork(t *testing.T) {
	withUsers(t, user("head", "post", "put, look, admin")+user("boss", "post", "work, admin"), func(g *accessHarness) {
		head, boss := g.as("head"), g.as("boss")
		head.send("set-policy post push:http://localhost:1/", "get-policy post", "set-policy post max:9")
		head.want("FORBIDDEN", "NOT_FOUND", "SET")
		boss.send("set-policy post push:http://localhost:1/")
		boss.want("SET")
		head.close()
		boss.close()
	})
}

// TestReserveSkipsForbiddenTubes: a reserve treats tubes on which the client may not work as empty.
func TestReserveSkipsForbiddenTubes(t *testing.T) {
	withUsers(t, user("app", `"post*"`, "work"), func(g *accessHarness) {
		g.root.send("put 0 0 60 7\r\ndefault", "use post", "put 9 0 60 4\r\npost")
		g.root.want("INSERTED 1", "USING post", "INSERTED 2")
		c := g.as("app")
		c.send("reserve", "reserve-lease 0", "reserve-batch 2 0", "watch other", "watch post", "reserve", "reserve-with-timeout 0")
		c.want("FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "WATCHING 2", "RESERVED 2 4", "post", "TIMED_OUT")
		c.send("reserve")
		synctest.Wait()
		g.root.send("use default", "put 0 0 60 1\r\nx", "use post", "put 0 0 60 1\r\ny")
		g.root.want("USING default", "INSERTED 3", "USING post", "INSERTED 4")
		c.want("RESERVED 4 1", "y")
		c.send("ignore post", "reserve-with-timeout 0", "delete 4", "delete 3", "delete 1")
		c.want("WATCHING 1", "FORBIDDEN", "DELETED", "NOT_FOUND", "NOT_FOUND")
		c.close()
	})
}

// TestLookups: commands that name jobs are looked up together, and answered in order with those that
// need no lookup.
func TestLookups(t *testing.T) {
	withUsers(t, user("app", "post", "put, work, look"), func(g *accessHarness) {
		put := "put 0 0 60 1\r\nx"
		g.root.send("use secret", put, put, "use post", put, put, put, put) // 1 and 2 are secret
		g.root.want("USING secret", "INSERTED 1", "INSERTED 2", "USING post", "INSERTED 3", "INSERTED 4", "INSERTED 5", "INSERTED 6")
		c := g.as("app")
		c.send("use post", put, "delete 7", "delete 1", "delete x", "delete 3", "delete 3", "peek 99", "kick-job 4", "kick-job 1", "peek 4", "x", "list-tube-used",
			"delete-batch 1 1 4 4 2 99 5", "delete 4", "stats-job 2", "reserve-job 6", "x", "touch 6", "release 6 0 0", "delete-batch 6")
		c.want("USING post", "INSERTED 7", "DELETED", "NOT_FOUND", "BAD_FORMAT", "DELETED", "NOT_FOUND", "NOT_FOUND", "FORBIDDEN", "NOT_FOUND", "FOUND 4 1", "x",
			"UNKNOWN_COMMAND", "USING post", "DELETED_BATCH 2 5", "NOT_FOUND", "NOT_FOUND", "RESERVED 6 1", "x", "UNKNOWN_COMMAND", "TOUCHED", "RELEASED", "DELETED_BATCH 1 0")
		c.send("auth root "+userSecret, put, put, "auth app "+userSecret, "use post", "delete 8", "peek-ready", "delete 9", "peek-ready")
		c.want("AUTHENTICATED", "INSERTED 8", "INSERTED 9", "AUTHENTICATED", "USING post", "DELETED", "FOUND 9 1", "x", "DELETED", "NOT_FOUND")
		g.root.send("peek 1", "peek 2")
		g.root.want("FOUND 1 1", "x", "FOUND 2 1", "x")
		c.close()
	})
}

// TestGrants: a client can finish a job that it has reserved without a lookup, whatever else it holds.
// It cannot finish a job of a forbidden tube whose id has the same index in the cache of grants.
func TestGrants(t *testing.T) {
	withUsers(t, user("app", "post", "work"), func(g *accessHarness) {
		g.root.sendRaw("use post\r\n" + strings.Repeat("put 0 0 60 1\r\nx\r\n", numGrants+10) + "use secret\r\nput 0 0 60 1\r\nx\r\n")
		g.root.discardReplies()
		c := g.as("app")
		c.send("watch post", "reserve")
		c.want("WATCHING 2", "RESERVED 1 1", "x")
		batches := g.batches()
		c.send("touch 1", "delete 1")
		c.want("TOUCHED", "DELETED")
		if n := g.batches() - batches; n > 1 {
			t.Errorf("%d batches for what the client holds", n)
		}
		secret := fmt.Sprint(numGrants + 11)
		c.send("reserve-batch 1000")
		c.discardReplies()
		c.send("delete 2", fmt.Sprint("delete ", numGrants+2), "delete "+secret, "delete 3")
		c.want("DELETED", "DELETED", "NOT_FOUND", "DELETED")
		c.close()
	})
}

// TestGrantsDoNotAllocate: every delete, release and touch asks for grants.
func TestGrantsDoNotAllocate(t *testing.T) {
	withUsers(t, user("app", "post", "work"), func(g *accessHarness) {
		p := &principal{access: g.access, user: g.access.Anonymous()}
		p.grant(7, access.Work)
		c := &protocol.Command{Verb: protocol.Delete, ID: 7}
		if n := testing.AllocsPerRun(100, func() {
			if !p.areGranted(c) {
				t.Error("not granted")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func (g *accessHarness) batches() (n int) {
	synctest.Wait()
	g.store.set(func(p *proxyStore) { n = p.batches })
	return n
}

// TestReloadUsers: the file of users is reloaded while clients hold jobs, wait and idle.
func TestReloadUsers(t *testing.T) {
	all := user("app", "post", "put, work") + user("gone", "post, empty", "work")
	withUsers(t, all, func(g *accessHarness) {
		g.root.send("use post", "put 0 0 60 1\r\nx")
		g.root.want("USING post", "INSERTED 1")
		holder, waiter, idle, stays := g.as("gone"), g.as("gone"), g.as("gone"), g.as("app")
		holder.send("watch post", "reserve")
		holder.want("WATCHING 2", "RESERVED 1 1", "x")
		for _, c := range []*client{waiter, stays} {
			c.send("watch post", "reserve")
			c.want("WATCHING 2")
		}
		onEmptyTube := g.as("gone") // only the reload ends its wait
		onEmptyTube.send("watch empty", "ignore default", "reserve")
		onEmptyTube.want("WATCHING 2", "WATCHING 1")
		synctest.Wait()
		g.rewrite(user("app", "post", "put, work"))
		for _, c := range []*client{holder, waiter, idle, onEmptyTube} {
			<-c.ended
		}
		stays.want("RESERVED 1 1", "x") // the job that the holder had reserved
		stays.send("delete 1", "reserve")
		stays.want("DELETED")
		g.rewrite(user("app", "post", "work, look"))
		g.root.send("put 0 0 60 1\r\ny")
		g.root.want("INSERTED 2")
		stays.want("RESERVED 2 1", "y")
		stays.send("peek 2", "use post", "put 0 0 60 1\r\nx", "reserve")
		stays.want("FOUND 2 1", "y", "USING post", "FORBIDDEN")
		synctest.Wait()
		g.rewrite(user("app", "post", "read")) // now it waits for jobs of a tube on which it may not work
		<-stays.ended
		stays.wantNothing()
	})
}

// TestAuthAsAnotherUser: after auth as another user, a client has not the rights of the first one.
func TestAuthAsAnotherUser(t *testing.T) {
	withUsers(t, user("app", "post", "work")+user("other", "x", "work"), func(g *accessHarness) {
		g.root.send("use post", "put 0 0 60 1\r\nx")
		g.root.want("USING post", "INSERTED 1")
		c := g.as("app")
		c.send("watch post", "reserve", "reserve-with-timeout 0", "auth other "+userSecret, "delete 1", "reserve-with-timeout 0", "auth app "+userSecret, "delete 1")
		c.want("WATCHING 2", "RESERVED 1 1", "x", "TIMED_OUT", "AUTHENTICATED", "NOT_FOUND", "FORBIDDEN", "AUTHENTICATED", "DELETED")
		c.close()
	})
}

// TestAuthBehindWaiting: an auth that is held behind a waiting reserve keeps its arguments, whatever is
// read after it meanwhile.
func TestAuthBehindWaiting(t *testing.T) {
	anonymous := "- {name: anonymous, rights: [{tubes: [post], may: [work]}]}\n"
	withUsers(t, anonymous+user("app", "post", "put"), func(g *accessHarness) {
		c := g.connect()
		c.send("watch post", "reserve", "auth app "+userSecret)
		c.want("WATCHING 2")
		synctest.Wait()
		for range 10 {
			c.send(strings.Repeat("x", 150))
			synctest.Wait()
		}
		g.root.send("use post", "put 0 0 60 1\r\nx")
		g.root.want("USING post", "INSERTED 1")
		c.want("RESERVED 1 1", "x", "AUTHENTICATED", "UNKNOWN_COMMAND")
		c.close()
	})
}

// TestListsSkipForbiddenTubes: lists have only the tubes that the client may list, or administer.
func TestListsSkipForbiddenTubes(t *testing.T) {
	withUsers(t, user("app", "post", "list")+user("chief", `"post*"`, "admin"), func(g *accessHarness) {
		for _, tube := range []string{"post", "poster", "secret"} {
			g.root.send("use "+tube, "put 0 0 60 1\r\nx", "set-policy "+tube+" max:7")
		}
		g.root.discardReplies()
		for name, want := range map[string][2]string{
			"app": {"---\n- post\n", "FORBIDDEN\n"}, "chief": {"FORBIDDEN\n", "---\n- post\n- poster\n"},
			rootUser: {"---\n- default\n- post\n- poster\n- secret\n", "---\n- post\n- poster\n- secret\n"},
		} {
			c := g.as(name)
			for i, command := range []string{"list-tubes", "list-policies"} {
				c.send(command)
				if got := c.allLines(); !strings.HasSuffix(strings.ReplaceAll(got, "\n\n", "\n"), want[i]) {
					t.Errorf("%s as %s:\n%s", command, name, got)
				}
			}
			c.close()
		}
	})
}

// TestAddressOf: failed logins are counted by the address without its port.
func TestAddressOf(t *testing.T) {
	for network, want := range map[string]string{"tcp": "127.0.0.1", "pipe": "local"} {
		ours, theirs := connected(t, network)
		if got := addressOf(theirs); got != want {
			t.Errorf("%s: %q, want %q", network, got, want)
		}
		ours.Close()
		theirs.Close()
	}
}

// TestUnauthenticated: the number of unauthenticated connections and their time are limited.
func TestUnauthenticated(t *testing.T) {
	withUsers(t, user("app", "post", "put"), func(g *accessHarness) {
		begun := time.Now()
		idle := g.connect()
		active := g.connect()
		for !closed(active) && time.Since(begun) < time.Hour {
			active.conn.Write([]byte("list-tube-used\r\n"))
			time.Sleep(time.Second)
		}
		<-idle.ended
		if took := time.Since(begun); took < DefaultAuthTimeout || took > DefaultAuthTimeout*5/4 {
			t.Errorf("unauthenticated connections were closed after %v", took)
		}
		app := g.as("app")
		time.Sleep(time.Hour)
		app.send("list-tube-used")
		app.want("USING default")
		var all []*client
		for range DefaultMaxUnauthenticated {
			all = append(all, g.connectFor(10))
		}
		synctest.Wait()
		full := time.Now()
		if <-g.connect().ended; time.Since(full) > 0 {
			t.Errorf("a connection beyond the limit was closed after %v", time.Since(full))
		}
		app.send("list-tube-used")
		app.want("USING default")
		all[0].close()
		<-all[0].ended
		synctest.Wait()
		g.as("app").close()
		time.Sleep(2 * DefaultAuthTimeout)
		if n := g.server.unauthenticated.Load(); n != 0 {
			t.Errorf("%d unauthenticated connections are still counted", n)
		}
		app.close()
	})
}

// TestAnonymousMayStay: if the user anonymous has rights, neither the number nor the time of
// unauthenticated connections is limited.
func TestAnonymousMayStay(t *testing.T) {
	withUsers(t, "- {name: anonymous, rights: [{tubes: [t], may: [look]}]}\n", func(g *accessHarness) {
		var all []*client
		for range DefaultMaxUnauthenticated + 1 {
			all = append(all, g.connectFor(10))
		}
		time.Sleep(2 * DefaultAuthTimeout)
		for _, c := range []*client{all[0], all[DefaultMaxUnauthenticated]} {
			c.send("list-tube-used")
			c.want("USING default")
		}
		for _, c := range all {
			c.close()
		}
	})
}

func closed(c *client) bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// TestLimitsOfUsers: connections and puts beyond the limits of a user are answered OUT_OF_MEMORY.
func TestLimitsOfUsers(t *testing.T) {
	limits := strings.Replace(user("app", "post", "put"), "rights:", "limits: {connections: 2, jobs-per-second: 5, bytes-per-second: 1000}, rights:", 1)
	withUsers(t, limits, func(g *accessHarness) {
		first, second, third := g.as("app"), g.as("app"), g.connect()
		third.send("auth app " + userSecret)
		third.want("OUT_OF_MEMORY")
		second.close()
		<-second.ended
		synctest.Wait()
		third.send("auth app "+userSecret, "auth app "+userSecret, "auth root "+userSecret)
		third.want("AUTHENTICATED", "AUTHENTICATED", "AUTHENTICATED")
		fourth := g.as("app")
		first.send("use post")
		first.want("USING post")
		for i := range 6 {
			first.send("put 0 0 60 1\r\nx")
			first.want([]string{"INSERTED", "OUT_OF_MEMORY"}[i/5] + []string{fmt.Sprint(" ", i+1), ""}[i/5])
		}
		time.Sleep(time.Minute)
		first.send("put 0 0 60 3000\r\n"+strings.Repeat("x", 3000), "put 0 0 60 1\r\nx")
		first.want("INSERTED 6", "OUT_OF_MEMORY")
		for _, c := range []*client{first, third, fourth} {
			c.close()
		}
	})
}

// TestAuthWhileEnding: Shutdown does not wait for the delay of an auth that fails.
func TestAuthWhileEnding(t *testing.T) {
	withUsers(t, "", func(g *accessHarness) {
		for range 3 {
			c := g.connect()
			c.send("auth a b", "auth a c")
			c.want("UNAUTHORIZED")
		}
		begun := time.Now()
		g.connect().send("auth a d")
		synctest.Wait()
		g.server.Shutdown(context.Background())
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
		g.harness.reopen(Config{}) // withServer shuts it down
	})
}

// FuzzAuth sends a random line to a session with users, and then a command: without the secret it does
// not authenticate.
func FuzzAuth(f *testing.F) {
	for _, line := range []string{"auth root " + userSecret, "auth root open", "auth root", "auth  root  " + userSecret, "auth root " + userSecret + " ", "auth anonymous x",
		"auth \x00 x", "auth root open\x00sesame", "auth a b\r\nauth root " + userSecret, strings.Repeat("auth ", 100)} {
		f.Add(line)
	}
	right := "auth root " + userSecret
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > 300 {
			t.Skip()
		}
		lines := slices.DeleteFunc(strings.Split(line, "\r\n"), func(l string) bool { return strings.TrimLeft(l, " ") == "" })
		may := slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "auth ") && strings.Contains(strings.Join(strings.Fields(l), " "), right)
		})
		withUsers(t, "", func(g *accessHarness) {
			c := g.connect()
			c.sendRaw(line + "\r\nuse secret\r\n")
			time.Sleep(maxAuthFailures * 10 * time.Second) // no attempt waits longer
			if got := c.allLines(); strings.Contains(got, "USING secret") && !may {
				t.Errorf("%q has authenticated:\n%s", line, got)
			}
			c.close()
		})
	})
}
