package fsck

import (
	"context"
	"slices"
	"strings"

	"redstalk/storage/redis/schema"
)

// checkNames starts a check of each entry of a key, if that begins like those of a kind of named records.
func (c *checker) checkNames(ctx context.Context, f *workerPool, p *checkedPartition, key string) {
	for _, kind := range schema.NamedKinds {
		what, found := strings.CutPrefix(key, kind.Name+"-")
		if !found || !slices.Contains([]string{"names", "dues", "claims", "bodies"}, what) {
			continue
		}
		scan := "zscan"
		if what == "bodies" {
			scan = "hscan"
		}
		f.do(func() error {
			return c.scanEntries(ctx, p, scan, key, func(found []string) error {
				return c.askOfNamed(ctx, p, kind, what, entriesOf(found))
			})
		})
	}
}

// checkRecords checks the records of a kind. more returns what its check needs to know of one besides its name.
func (c *checker) checkRecords(ctx context.Context, p *checkedPartition, kind *schema.NamedKind, more func(name string) []string) error {
	return c.scanEntries(ctx, p, "hscan", kind.Records, func(found []string) error {
		var broken, good []string
		for i := 0; i+1 < len(found); i += 2 {
			if name := found[i]; kind.IsBroken(name, found[i+1]) {
				broken = append(broken, name)
			} else {
				good = append(append(good, name), more(name)...)
			}
		}
		if err := c.askOfNamed(ctx, p, kind, "broken", broken); err != nil {
			return err
		}
		return c.askOfNamed(ctx, p, kind, "records", good)
	})
}

// askOfNamed runs the script that checks named records of a kind.
func (c *checker) askOfNamed(ctx context.Context, p *checkedPartition, kind *schema.NamedKind, what string, args []string) error {
	return c.askInParts(ctx, p, namedScript, []string{kind.Name, what}, args, "entries of "+kind.Records)
}
