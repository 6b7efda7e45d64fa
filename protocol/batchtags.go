package protocol

import "time"

// This file parses what concerns batches.

// MaxBatchName is the longest name of a batch, in bytes.
const MaxBatchName = 100

// BatchTags are what a put says about batches.
type BatchTags struct {
	Name     string        // of the batch of which the job is a member; "": none
	TTL      time.Duration // whole milliseconds, at most MaxDuration; 0: not set
	After    string        // the batch after which the job runs if all members are done; "": none
	AfterAll string        // the batch after which the job runs in any case; "": none; never together with After
}

// ValidBatch reports whether name can be the name of a batch: printable ASCII characters without spaces.
func ValidBatch(name string) bool { return len(name) <= MaxBatchName && ValidKey([]byte(name)) }

func (t *Tags) readBatch(value []byte) bool {
	t.Batch.Name = string(value)
	return ValidBatch(t.Batch.Name)
}

func (t *Tags) readBatchTTL(value []byte) bool {
	return wholeDuration(&t.Batch.TTL, value) && t.Batch.TTL > 0
}

func (t *Tags) readAfter(value []byte) bool {
	t.Batch.After = string(value)
	return ValidBatch(t.Batch.After)
}

func (t *Tags) readAfterAll(value []byte) bool {
	t.Batch.AfterAll = string(value)
	return ValidBatch(t.Batch.AfterAll)
}

// wrongBatch says what is wrong with the tags about batches; "" if nothing is.
func (t *Tags) wrongBatch() string {
	b := &t.Batch
	switch after := b.After + b.AfterAll; {
	case b.TTL > 0 && b.Name+after == "":
		return "the tag batch-ttl needs the tag batch, after or after-all"
	case b.After != "" && b.AfterAll != "":
		return "the tags after and after-all contradict each other"
	case after != "" && t.HasAt:
		return "the tag at contradicts the tags after and after-all"
	case after != "" && after == b.Name:
		return "a member of a batch cannot run after it"
	}
	return ""
}

// readBatchName parses the name of a batch.
func (c *Command) readBatchName(args []byte) (rest []byte, ok bool) {
	name, rest := nextWord(args)
	c.Key = string(name)
	return rest, ValidBatch(c.Key)
}

// parseBatch parses NAME, which must end the line.
func parseBatch(c *Command, args []byte) bool {
	rest, ok := c.readBatchName(args)
	return ok && len(rest) == 0
}

// parseListBatches parses [COUNT [CURSOR]], which must end the line.
func parseListBatches(c *Command, args []byte) bool { return c.readListed(args, MaxBatchName) }

// parseListMembers parses NAME [COUNT [CURSOR]], which must end the line.
func parseListMembers(c *Command, args []byte) bool {
	rest, ok := c.readBatchName(args)
	return ok && c.readListed(rest, MaxCursor)
}
