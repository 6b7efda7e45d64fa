package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// checkAt checks a namespace and returns the faults, sorted. The result must be the same in
// many small steps, as for a large namespace; a repair uses these.
func checkAt(t *testing.T, url string, repair bool) (jobs int, wrong []string) {
	t.Helper()
	jobs, wrong = checkBy(t, url, repair, 10)
	if repair {
		return jobs, wrong
	}
	if whole, atOnce := checkBy(t, url, false, fsck.DefaultWork); whole != jobs || !slices.Equal(wrong, atOnce) {
		t.Errorf("%d jobs, %q at once; %d, %q in steps", whole, atOnce, jobs, wrong)
	}
	return jobs, wrong
}

// checkBy checks a namespace with scripts that do this much work each.
func checkBy(t *testing.T, url string, repair bool, work int) (jobs int, wrong []string) {
	t.Helper()
	jobs, err := fsck.Check(context.Background(), fsck.Options{URL: url, WatchFor: briefWatch, MaxWork: work}, repair, fsck.Report{Found: func(_ int, what string) { wrong = append(wrong, what) }})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(wrong)
	return jobs, wrong
}

// fsckOptions are for a check of the jobs of a store.
func fsckOptions(o Options) fsck.Options {
	return fsck.Options{URL: o.URL, Namespace: o.Namespace, Timeout: o.Timeout, WatchFor: briefWatch}
}

// fillStates puts jobs into all states: 1 and 2 are ready, 3 delayed, 4 buried,
// 5 reserved by holder 1.
func fillStates(s *Store) {
	for range 2 {
		do(s, put("x"))
	}
	do(s, storage.Op{Kind: storage.Put, Tube: "t", Delay: 1000, TTR: 600})
	for _, move := range []tube.Move{tube.Bury, tube.Touch} {
		id := do(s, storage.Op{Kind: storage.Put, Tube: "u", TTR: 600}).ID
		do(s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
		do(s, storage.Op{Kind: storage.Move, Move: move, Holder: 1, ID: id})
	}
}

func TestCheckFindsNothing(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	fillStates(s)
	do(s, move(tube.Delete, 1, do(s, put("gone")).ID))
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != 5 || len(wrong) > 0 {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	_, err := fsck.Check(context.Background(), fsck.Options{URL: redis.URL()}, true, fsck.Report{})
	if !errors.Is(err, fsck.ErrInstances) {
		t.Errorf("repairing while an instance runs: %v", err)
	}
	_, err = fsck.Check(context.Background(), fsck.Options{URL: redis.URL(), Namespace: "other"}, false, fsck.Report{})
	if err == nil || !strings.Contains(err.Error(), `"other" is not one of layout`) {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

// TestCheckOfExpiringKeys: a record that expires is found, and its expiry removed. A staged
// record must expire, and is no job.
func TestCheckOfExpiringKeys(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	a := do(s, putBody(bodyOf('a', 20_000)))
	do(s, put("x"))
	s.Close()
	client.Set(ctx, p+"put:"+s.parts[0].instance.name()+":"+digits(7)+":1", "record", stagedFor)
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != 2 || len(wrong) > 0 {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	client.Expire(ctx, p+digits(a.ID), time.Hour)
	want := []string{"job " + digits(a.ID) + ": its record expires"}
	if _, wrong := checkAt(t, redis.URL(), false); !slices.Equal(wrong, want) {
		t.Errorf("%q", wrong)
	}
	if _, wrong := checkAt(t, redis.URL(), true); !slices.Equal(wrong, want) {
		t.Errorf("repaired: %q", wrong)
	}
	if left := client.TTL(ctx, p+digits(a.ID)).Val(); left != -1 {
		t.Errorf("the record still expires, in %v", left)
	}
}

// TestCheckOnCluster: the partitions are found on their nodes.
func TestCheckOnCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	s := openAt(t, redis.URL(), patient)
	for p := range len(s.parts) {
		do(s, putIn(tubeIn(p, len(s.parts)), 0))
	}
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != len(s.parts) || len(wrong) > 0 {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	node := redis.Owner(t, s.parts[5].prefix, redis.Primaries[0]).Client(t)
	node.Del(context.Background(), s.parts[5].prefix+"ready:"+tubeIn(5, len(s.parts)))
	if _, wrong := checkAt(t, redis.URL(), false); !strings.Contains(strings.Join(wrong, ""), "and it is nowhere") {
		t.Errorf("%q", wrong)
	}
}

// TestRepair damages everything, and then finds and corrects it.
func TestRepair(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	fillStates(s)
	s.Close()
	client.ZRem(ctx, p+"ready:t", p+digits(1))                                         // is nowhere
	client.Del(ctx, p+digits(2))                                                       // is a member of ready:t
	client.ZAdd(ctx, p+"buried:t", goredis.Z{Score: 9, Member: p + digits(3)})         // is in two places
	client.ZAdd(ctx, p+"ready:u", goredis.Z{Score: 9, Member: "0000000000000099"})     // is no job
	client.ZRem(ctx, p+"tubes", "u")                                                   // is not listed
	client.ZRem(ctx, p+"timers", "d:t")                                                // will not be due
	client.HSet(ctx, p+"counts", "urgent", 77, "delayed", 77, "buried", 77)            // are wrong
	client.HIncrBy(ctx, p+"tube:t", "deletes", 1)                                      // is wrong
	client.ZAdd(ctx, p+"reserved:nobody", goredis.Z{Score: 1, Member: "000000000077"}) // is no job, of no instance
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"job " + digits(1) + ": by its record it should be in ready:t, and it is nowhere",
		"ready:t has " + digits(2) + ": there is no such job",
		"job " + digits(3) + ": by its record it should be in delayed:t, and it is in delayed:t, buried:t",
		"ready:u has 0000000000000099: there is no such job",
		"job " + digits(4) + ": its tube u is not listed",
		"tube t: no timer for its first delayed job",
		"urgent of counts is 77", "delayed of counts is 77", "buried of counts is 77",
		"of tube:t is", "reserved:nobody has 000000000077: there is no such job",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if _, again := checkAt(t, redis.URL(), false); !slices.Equal(again, wrong) {
		t.Errorf("looking has changed something: %q", again)
	}
	checkAt(t, redis.URL(), true)
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s = openAt(t, redis.URL(), patient)
	want := tube.Totals{Urgent: 2, Ready: 2, Delayed: 1, Buried: 1, Jobs: 5, Tubes: 3}
	if got := figures(t, s); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if a := do(s, take(1)); a.ID != 1 {
		t.Errorf("took %+v, want job 1", a)
	}
}

// digits returns the end of the key of a job.
func digits(id uint64) string { return string(schema.AppendID(nil, id)) }

// bulk is many commands for Redis that are sent at once. A pipeline of the client would take
// most of a test's time.
type bulk struct {
	commands []byte
	n        int
}

func (b *bulk) add(args ...string) {
	b.commands = fmt.Appendf(b.commands, "*%d\r\n", len(args))
	for _, arg := range args {
		b.commands = strconv.AppendInt(append(b.commands, '$'), int64(len(arg)), 10)
		b.commands = append(b.commands, "\r\n"...)
		b.commands = append(b.commands, arg...)
		b.commands = append(b.commands, "\r\n"...)
	}
	b.n++
}

// send has the commands carried out, each of which must be answered with a number
// or OK.
func (b *bulk) send(t *testing.T, redis *redistest.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * patient))
	go conn.Write(b.commands)
	answers := bufio.NewScanner(conn)
	for range b.n {
		if !answers.Scan() || answers.Text()[0] != ':' && answers.Text() != "+OK" {
			t.Fatalf("Redis answers %q, %v", answers.Text(), answers.Err())
		}
	}
}

// fillMany puts jobs into a namespace directly: one into each of many tubes, many into the tube
// large, and as many again that are reserved by an instance that is gone, half of them in lease
// sets of ten.
func fillMany(t *testing.T, redis *redistest.Server, tubes, others int) {
	t.Helper()
	var all bulk
	p, id := "redstalk:{0}:", uint64(0)
	add := func(name string) string {
		id++
		op := storage.Op{Kind: storage.Put, Tube: name, Pri: 5000, TTR: 60}
		all.add("SET", p+digits(id), string(schema.AppendHead(nil, &op, 1)))
		all.add("HINCRBY", p+"tube:"+name, "total", "1")
		return p + digits(id)
	}
	for k := range tubes {
		name := fmt.Sprint("tube", k)
		all.add("ZADD", p+"ready:"+name, "5000", add(name))
		all.add("ZADD", p+"tubes", strconv.Itoa(k+2), name)
	}
	all.add("ZADD", p+"tubes", "1", "large")
	for range others {
		all.add("ZADD", p+"ready:large", "5000", add("large"))
	}
	for k := range others {
		key := add(fmt.Sprint("tube", k/10))
		if k%20 >= 10 {
			all.add("ZADD", p+"reserved:GONE", "9", key)
		} else if k%20 == 0 {
			all.add("ZADD", p+"reserved:GONE", "9", key+";10;g9")
			all.add("ZADD", p+"groups:GONE", "0", key+";10;g9")
		}
	}
	all.add("ZADD", p+"instances", "1", "GONE")
	all.add("HSET", p+"layout", "version", fmt.Sprint(schema.LayoutVersion), "partitions", "1")
	all.add("HSET", p+"counts", "ids", strconv.Itoa(tubes+2*others), "opened", strconv.Itoa(tubes+1), "grouped", strconv.Itoa(others/2))
	all.send(t, redis)
}

// longestCalls monitors a server until stopped, and returns how many commands the busiest
// script has made, and how many arguments the longest call had.
func longestCalls(t *testing.T, redis *redistest.Server) (stop func() (calls, args int)) {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewReaderSize(conn, 1<<20)
	if ok, err := lines.ReadString('\n'); err != nil || ok != "+OK\r\n" {
		t.Fatal(ok, err)
	}
	calls, args, ended := 0, 0, make(chan struct{})
	go func() {
		defer close(ended)
		for now := 0; ; {
			line, err := lines.ReadString('\n')
			if err != nil || strings.Contains(line, "the-end") {
				return
			}
			if now++; !strings.Contains(line, "[0 lua]") {
				now = 0
			}
			calls, args = max(calls, now), max(args, strings.Count(line, `" "`))
		}
	}()
	return func() (int, int) {
		redis.Client(t).Echo(context.Background(), "the-end")
		<-ended
		conn.Close()
		return calls, args
	}
}

// TestCheckInSteps: no call of a check does more than its share, whatever grows large.
func TestCheckInSteps(t *testing.T) {
	skipIfShort(t)
	redis := redistest.Start(t)
	fillMany(t, redis, fsck.DefaultWork, 2*fsck.DefaultWork)
	stop := longestCalls(t, redis)
	if jobs, wrong := checkBy(t, redis.URL(), false, fsck.DefaultWork); jobs != 5*fsck.DefaultWork || len(wrong) > 0 {
		t.Errorf("%d jobs, %d wrong: %.200q", jobs, len(wrong), wrong)
	}
	if calls, args := stop(); calls > fsck.DefaultWork+fsck.DefaultWork/4 || calls < fsck.DefaultWork/4 || args > fsck.DefaultWork {
		t.Errorf("a call did %d things, one had %d arguments", calls, args)
	}
}

// TestCheckManyTubes: faults among many tubes are found and corrected, and the progress is
// reported.
func TestCheckManyTubes(t *testing.T) {
	skipIfShort(t)
	const others, tubes = 2 * fsck.DefaultWork, 60_000 // more than the arguments that a script can have
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	fillMany(t, redis, tubes, others)
	client.HIncrBy(ctx, fmt.Sprintf("%stube:tube%d", p, tubes-1), "deletes", 2)
	client.HSet(ctx, p+"tube:large", "joined", 7)
	client.HIncrBy(ctx, p+"counts", "grouped", 7)
	client.ZRem(ctx, p+"reserved:GONE", p+digits(uint64(tubes+others+11)))
	want := []string{
		fmt.Sprintf("deletes of tube:tube%d is 2, and should be 0", tubes-1),
		fmt.Sprintf("grouped of counts is %d, and should be %d", others/2+7, others/2),
		"job " + digits(uint64(tubes+others+11)) + ": by its record it should be in ready:tube1, and it is nowhere",
		"joined of tube:large is 7, and should be 0",
	}
	for _, repair := range []bool{false, true} {
		var wrong []string
		seen := make(map[string]int)
		jobs, err := fsck.Check(ctx, fsck.Options{URL: redis.URL(), Timeout: patient}, repair, fsck.Report{
			Found:    func(_ int, what string) { wrong = append(wrong, what) },
			Progress: func(what string, n int) { seen[what] = max(seen[what], n) },
		})
		wrong = slices.DeleteFunc(wrong, func(what string) bool { // what follows from the others
			return strings.HasPrefix(what, "deleted of") || strings.HasPrefix(what, "deletes of tube:tube1 ") || strings.HasPrefix(what, "total of tube:large")
		})
		if slices.Sort(wrong); jobs != tubes+2*others || err != nil || !slices.Equal(wrong, want) {
			t.Errorf("%d jobs, %v, %.500q", jobs, err, wrong)
		}
		if seen["jobs"] != jobs || seen["tubes"] != tubes+1 {
			t.Errorf("seen %v", seen)
		}
	}
}

// TestCheckBesideInstances: while an instance changes things between any two scripts, no false
// faults are reported, but real faults of a tube are.
func TestCheckBesideInstances(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	for k := range 30 {
		do(s, storage.Op{Kind: storage.Put, Tube: fmt.Sprint("tube", k), TTR: 600})
	}
	putMany(t, s, 20, 5)
	redis.Client(t).HIncrBy(context.Background(), "redstalk:{0}:tube:tube7", "deletes", 2)
	var wrong, skipped []string
	_, err := fsck.Check(context.Background(), fsck.Options{URL: redis.URL(), MaxWork: 100}, false, fsck.Report{
		Found:   func(_ int, what string) { wrong = append(wrong, what) },
		Skipped: func(_ int, what string) { skipped = append(skipped, what) },
		Progress: func(string, int) {
			do(s, take(1))
			do(s, put("x"))
		},
	})
	if err != nil || !slices.Equal(wrong, []string{"deletes of tube:tube7 is 2, and should be 0"}) {
		t.Errorf("%v, %q", err, wrong)
	}
	if !slices.Contains(skipped, "the counters over all tubes were not compared: instances are changing them") {
		t.Errorf("not compared: %q", skipped)
	}
}

// TestRepairStops as soon as an instance starts.
func TestRepairStops(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	fillStates(s)
	s.Close()
	_, err := fsck.Check(context.Background(), fsck.Options{URL: redis.URL(), MaxWork: 10}, true, fsck.Report{
		Found: func(_ int, what string) { t.Error(what) },
		Progress: func(what string, n int) {
			if s != nil {
				openAt(t, redis.URL(), patient)
			}
			s = nil
		},
	})
	if !errors.Is(err, fsck.ErrInstances) {
		t.Errorf("%v", err)
	}
}
