package fsck

import (
	"context"

	"redstalk/storage/redis/schema"
)

// checkSchedules checks an entry of what is known of schedules for each of their names. from is the key
// that has the names, and scan the command that reads it: each name comes with a value.
func (c *checker) checkSchedules(ctx context.Context, p *checkedPartition, scan, from string) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		found, next, err := p.node.Do(ctx, scan, p.prefix+from, cursor, "count", jobsPerCheck).Scan()
		if err != nil {
			return err
		}
		names := entriesOf(found)
		if from == "schedules" {
			if names, err = c.checkRecords(ctx, p, found); err != nil {
				return err
			}
		}
		if err := c.askOfSchedules(ctx, p, from, names); err != nil {
			return err
		}
		cursor = next
	}
	return nil
}

// checkRecords checks whether records, each of which follows its name, can be read. It returns the names
// of those that can.
func (c *checker) checkRecords(ctx context.Context, p *checkedPartition, found []string) (good []string, err error) {
	var broken []string
	for i := 0; i+1 < len(found); i += 2 {
		if _, _, err := schema.ParseSchedule(found[i], found[i+1]); err != nil {
			broken = append(broken, found[i])
		} else {
			good = append(good, found[i])
		}
	}
	return good, c.askOfSchedules(ctx, p, "broken", broken)
}

// askOfSchedules runs the script that checks schedules.
func (c *checker) askOfSchedules(ctx context.Context, p *checkedPartition, from string, names []string) error {
	for len(names) > 0 {
		n, _, err := c.ask(ctx, p, schedulesScript, append([]string{from}, names...))
		if err != nil {
			return err
		}
		names = names[n:]
		c.reportProgress("entries of schedules", n)
	}
	return nil
}
