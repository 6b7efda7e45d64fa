package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are what a user may say about a run.
type options struct {
	rounds   int    // of crash and chaos; 0: as many as the part has by itself
	commands int    // of the differential tester; likewise
	fuzztime string // of each fuzzer
	attacks  string // with commas; empty: all
	seed     uint64
	limit    time.Duration // of a part; 0: none
}

// paths are where everything is, from the root of the repository.
type paths struct{ records, page, logs string }

func main() {
	var o options
	where := paths{}
	names := flag.String("parts", "", "the parts to run, with commas, or what their names begin with; empty: all")
	list := flag.Bool("list", false, "print the parts, and end")
	only := flag.Bool("page-only", false, "write the page of the records that there are, and end")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of a part that has rounds; 0: 250")
	flag.IntVar(&o.commands, "commands", 0, "commands of the differential tester; 0: 1,000,000")
	flag.StringVar(&o.fuzztime, "fuzztime", "10m", "how long each fuzzer runs")
	flag.StringVar(&o.attacks, "attacks", "", "the attacks to make, with commas; empty: all")
	flag.Uint64Var(&o.seed, "seed", 0, "what makes the choices; 0: the clock")
	flag.DurationVar(&o.limit, "limit", 0, "how long a part may take before it is stopped, and then does not count; 0: as long as it takes")
	flag.StringVar(&where.records, "records", "docs/proof.jsonl", "the file of the records")
	flag.StringVar(&where.page, "page", "docs/proof.md", "the page")
	flag.StringVar(&where.logs, "logs", "bin/proof-logs", "the directory for all that is printed")
	flag.Parse()
	if *list {
		for _, p := range parts {
			fmt.Printf("%-20s %s\n", p.name, p.what)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := prove(ctx, *names, *only, o, where); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// prove runs parts, and writes a record and the page after each. The error is that of the first
// thing that could not be done, or tells how many parts have found something.
func prove(ctx context.Context, names string, pageOnly bool, o options, where paths) error {
	if pageOnly {
		return writePage(where)
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().Unix())
	}
	failed := 0
	for _, p := range chosen {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		r, err := p.run(ctx, o, where.logs)
		if err != nil {
			return fmt.Errorf("running %s: %w", p.name, err)
		}
		fmt.Println(r)
		if r.Result == failedRun {
			failed++
		}
		if err := appendRecord(where.records, r); err != nil {
			return err
		}
		if err := writePage(where); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d parts have found something; %s tells what", failed, len(chosen), where.page)
	}
	return nil
}

// choose returns the parts with these names, or whose names begin with one and a hyphen, in the
// order of the table.
func choose(names string) (chosen []*part, err error) {
	if names == "" {
		return parts, nil
	}
	wanted := strings.Split(names, ",")
	found := make(map[string]bool)
	for _, p := range parts {
		take := false
		for _, name := range wanted {
			if p.name == name || strings.HasPrefix(p.name, name+"-") {
				take, found[name] = true, true
			}
		}
		if take {
			chosen = append(chosen, p)
		}
	}
	for _, name := range wanted {
		if !found[name] {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	return chosen, nil
}
