package main

import (
	"cmp"
	"fmt"
	"strings"
)

// part is something that can be run by itself.
type part struct {
	name string
	what string

	// commands are run one after the other, until one fails.
	commands func(o options) [][]string

	// given are the variables of make that the part minds, with which it can be run again.
	given func(o options) string

	// read are its readers.
	read []reader

	seeded bool // the seed makes its choices
}

// What a part does if nothing else was asked for.
const (
	usualRounds   = 250
	usualCommands = 1_000_000
)

// server is the package with the tests of the whole program.
const server = "./cmd/redstalkd"

// goTest is the command line of tests whose events are to be read.
func goTest(pkg, run string, args ...string) []string {
	line := []string{"go", "test", "-json", "-count=1", "-timeout", "0", "-run", run, pkg}
	if len(args) > 0 {
		line = append(append(line, "-args"), args...)
	}
	return line
}

func one(line ...string) [][]string { return [][]string{line} }

// parts are all that there are, in the order in which they are run.
var parts = []*part{
	crash,
	disk,
	power,
	chaosOn("redis", "one Redis"),
	chaosOn("sentinel-2", "Sentinel, 2 of 2"),
	chaosOn("sentinel-1", "Sentinel, 1 of 2"),
	chaosOn("cluster", "Cluster"),
	failover,
	differOn("memory", "the engine in memory", "^TestDiffer$/^memory$"),
	differOn("embedded", "the engine on disk", "^TestDiffer$/^embedded$"),
	differOn("redis", "the engine on Redis", "^TestDiffer$/^redis$"),
	differOn("two", "two instances on one Redis; half as many commands", "^TestDifferOnTwoInstances$"),
	differOn("partitions", "16 partitions on one Redis; a quarter as many commands", "^TestDifferInPartitions$"),
	differOn("cluster", "a cluster of three nodes; half as many commands", "^TestDifferOnCluster$"),
	beyond,
	clients,
	fuzz,
	hostile,
	attack,
	moveLive,
	moveBehind,
	importing,
}

var crash = &part{
	name: "crash", what: "the server is killed under load, with -f 0, -f 50, -F, and with bodies of up to 64 MiB",
	commands: func(o options) [][]string {
		return one(goTest(server, "^TestCrash", "-crash-rounds", rounds(o), "-crash-seed", fmt.Sprint(o.seed))...)
	},
	given: givenRounds, read: []reader{readKills, readLedger}, seeded: true,
}

var disk = &part{
	name: "disk", what: "every operation on a file of the engine on disk fails, once and for good",
	commands: func(options) [][]string {
		return one(goTest("./storage/embedded", "^TestFaults$", "-faults", "0")...)
	},
	given: givenNothing, read: []reader{readDiskFaults},
}

var power = &part{
	name: "power", what: "the power is cut after and within each step of random histories",
	commands: func(options) [][]string {
		return [][]string{
			goTest("./storage/embedded", "^TestPowerCut$", "-walks", "50"),
			goTest("./storage/embedded/wal", "^TestPowerCut$", "-histories", "200"),
		}
	},
	given: givenNothing, read: []reader{readCuts, readLogCuts},
}

// chaosOn is chaos with a way of running Redis; title is that of the subtest.
func chaosOn(name, title string) *part {
	run := "^TestChaos$/^" + strings.ReplaceAll(title, " ", "_") + "$"
	return &part{
		name: "chaos-" + name, what: "faults happen to three instances, to Redis and to connections under load: " + title,
		commands: func(o options) [][]string {
			return one(goTest(server, run, "-ha-long", "-chaos-rounds", rounds(o), "-chaos-seed", fmt.Sprint(o.seed))...)
		},
		given: givenRounds, read: []reader{readChaosKinds, readChaosRound, readLedger}, seeded: true,
	}
}

var failover = &part{
	name: "failover", what: "single failovers, frozen primaries, moved slots, instances that die, under load",
	commands: func(options) [][]string {
		return one(goTest(server, "Failover|Frozen|Migration|InstanceKilled|GoneAndBack", "-ha-long")...)
	},
	given: givenNothing, read: []reader{readLedger},
}

// differOn compares with the true beanstalkd.
func differOn(name, title, run string) *part {
	return &part{
		name: "differ-" + name, what: "random scripts, every reply compared with beanstalkd's: " + title,
		commands: func(o options) [][]string {
			return one(goTest(server, run, "-differ-commands", commands(o), "-differ-seed", fmt.Sprint(o.seed))...)
		},
		given: givenCommands, read: []reader{readCompared}, seeded: true,
	}
}

var beyond = &part{
	name: "beyond", what: "random scripts with what beanstalkd does not know, on all engines, judged by the one in memory",
	commands: func(o options) [][]string {
		return one(goTest(server, "^TestDifferBeyond", "-differ-commands", commands(o), "-differ-seed", fmt.Sprint(o.seed))...)
	},
	given: givenCommands, read: []reader{readCompared}, seeded: true,
}

var clients = &part{
	name: "clients", what: "clients that others wrote, on beanstalkd and on both durable engines",
	commands: func(options) [][]string {
		return [][]string{
			{"sh", "tools/clients.sh"},
			goTest("github.com/beanstalkd/go-beanstalk", "."),
			goTest(server, "^Test(Task)?Clients$", "-clients"),
		}
	},
	given: givenNothing, read: []reader{readClients},
}

var fuzz = &part{
	name: "fuzz", what: "all fuzzers",
	commands: func(o options) [][]string { return one("make", "fuzz", "FUZZTIME="+o.fuzztime) },
	given:    func(o options) string { return " FUZZTIME=" + o.fuzztime },
	read:     []reader{readFuzz},
}

var hostile = &part{
	name: "hostile", what: "noise from 10,000 connections, lines and bodies that never end, replies that nobody reads",
	commands: func(options) [][]string {
		return one(goTest(server, "^(TestHostile|TestHostileBodies|TestFlood|TestIdleConnectionIsClosed)$")...)
	},
	given: givenNothing,
}

var attack = &part{
	name: "attack", what: "what hurts queue servers, and what others feel of it",
	commands: func(o options) [][]string {
		return [][]string{
			{"go", "build", "-o", "bin/", "./cmd/redstalkd"},
			{"go", "run", "./tools/attack", "-bin", "bin/redstalkd", "-only", o.attacks},
		}
	},
	given: func(o options) string {
		if o.attacks == "" {
			return ""
		}
		return " ATTACKS=" + o.attacks
	},
	read: []reader{readAttack},
}

var moveLive = &part{
	name: "move-live", what: "200,000 jobs move from a running beanstalkd under load, the mover is killed five times",
	commands: func(options) [][]string {
		return one(goTest(server, "^TestMoveKilled$", "-move-jobs", "200000", "-move-kills", "5")...)
	},
	given: givenNothing, read: []reader{readMoved},
}

var moveBehind = &part{
	name: "move-behind", what: "200,000 jobs come over through a server in front of beanstalkd, which is killed five times",
	commands: func(options) [][]string {
		return one(goTest(server, "^TestBehindKilled$", "-move-jobs", "200000", "-move-kills", "5")...)
	},
	given: givenNothing, read: []reader{readMoved},
}

var importing = &part{
	name: "import", what: "a binlog of 1,000,000 jobs is imported in at most 10 s",
	commands: func(options) [][]string {
		return one(goTest(server, "^TestImportMany$", "-import-jobs", "1000000", "-import-within", "10s")...)
	},
	given: givenNothing, read: []reader{readImported},
}

func rounds(o options) string   { return fmt.Sprint(cmp.Or(o.rounds, usualRounds)) }
func commands(o options) string { return fmt.Sprint(cmp.Or(o.commands, usualCommands)) }

func givenNothing(options) string    { return "" }
func givenRounds(o options) string   { return fmt.Sprintf(" ROUNDS=%s SEED=%d", rounds(o), o.seed) }
func givenCommands(o options) string { return fmt.Sprintf(" COMMANDS=%s SEED=%d", commands(o), o.seed) }

// again is how to run the part once more as it was.
func (p *part) again(o options) string { return "make proof PARTS=" + p.name + p.given(o) }
