package protocol

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// This file parses what concerns groups and limits.

const (
	// MaxGroup is the longest name of a group, in bytes.
	MaxGroup = 128
	// MaxLimit is the largest concurrency, and the largest number in a rate.
	MaxLimit = 1_000_000
	// MaxGroupCursor is the longest cursor of list-groups, in bytes.
	MaxGroupCursor = (MaxGroup*4 + 2) / 3
)

// Limits are how many jobs can be reserved at a time, and how many in a time.
type Limits struct {
	Concurrency uint32 // 1 to MaxLimit; 0: not set
	Rates       Rates
}

// Rates are the largest numbers of reserves in any second, minute and hour, 1 to MaxLimit each; 0:
// not set.
type Rates [3]uint32

// GroupOrder is the value of the tag group-order.
type GroupOrder uint8

const (
	NoGroupOrder GroupOrder = iota
	Fair
	Strict
)

// GroupOrderWords are the values of the tag group-order, indexed by GroupOrder.
var GroupOrderWords = []string{"", "fair", "strict"}

// ParseGroupOrder parses a value of the tag group-order.
func ParseGroupOrder(word string) (o GroupOrder, ok bool) {
	switch word {
	case "fair":
		return Fair, true
	case "strict":
		return Strict, true
	}
	return NoGroupOrder, false
}

// ParseRates parses numbers with the letter of a unit each, such as 100/m,1000/h, separated by commas.
// A number without a unit is for a second. No unit can occur twice.
func ParseRates(text []byte) (r Rates, ok bool) {
	for more := true; more; {
		var one []byte
		one, text, more = bytes.Cut(text, []byte(","))
		rate, ok := ParsePushRate(one)
		unit := rateUnit(rate.Every)
		if !ok || r[unit] > 0 {
			return r, false
		}
		r[unit] = rate.Calls
	}
	return r, true
}

// rateUnit returns the index in rateUnits of a length; 0 if there is none.
func rateUnit(length time.Duration) int {
	for i, unit := range rateUnits {
		if unit.length == length {
			return i
		}
	}
	return 0
}

// String returns the rates as they are in a tag, "" for none.
func (r Rates) String() string {
	var words []string
	for i, n := range r {
		if n > 0 {
			words = append(words, strconv.FormatUint(uint64(n), 10)+"/"+rateUnits[i].letter)
		}
	}
	return strings.Join(words, ",")
}

// ValidGroup reports whether a text can be the name of a group: it has 1 to MaxGroup bytes of UTF-8,
// and no control characters but tabs and newlines.
func ValidGroup(s string) bool { return s != "" && len(s) <= MaxGroup && validText(s) }

// readGroup parses TUBE GROUP. A group can be in quotes.
func (c *Command) readGroup(args []byte) (rest []byte, ok bool) {
	if c.Name, args, ok = readName(args); !ok || len(args) == 0 || args[0] != ' ' {
		return args, false
	}
	args = skipSpaces(args)
	end := valueEnd(args, false)
	word, rest := args[:end], args[end:]
	if len(word) > 0 && word[0] == '"' {
		if word, ok = unquote(word); !ok {
			return rest, false
		}
	} else if !printable(word, MaxGroup) {
		return rest, false
	}
	c.Key = string(word)
	return rest, ValidGroup(c.Key)
}

// parseGroup parses TUBE GROUP, which must end the line.
func parseGroup(c *Command, args []byte) bool {
	args, ok := c.readGroup(args)
	return ok && len(args) == 0
}

// parseSetGroup parses TUBE GROUP [TAG:VALUE]..., which must end the line.
func parseSetGroup(c *Command, args []byte) bool {
	args, ok := c.readGroup(args)
	c.List = args
	return ok && c.endTags(args, TagsOfGroup)
}

// parsePauseGroup parses TUBE GROUP SECONDS, which must end the line.
func parsePauseGroup(c *Command, args []byte) bool {
	args, ok := c.readGroup(args)
	if !ok {
		return false
	}
	c.Delay, args, ok = u32(args)
	return ok && len(args) == 0
}

// parseListGroups parses TUBE [COUNT [CURSOR]], which must end the line.
func parseListGroups(c *Command, args []byte) (ok bool) {
	c.Name, args, ok = readName(args)
	return ok && c.readListed(args, MaxGroupCursor)
}

func (t *Tags) readGroup(value []byte) bool {
	t.Group = string(value)
	return printable(value, MaxGroup) || ValidGroup(t.Group)
}

func (t *Tags) readGroupConcurrency(value []byte) bool {
	return smallNumber(&t.GroupLimits.Concurrency, value, MaxLimit)
}

func (t *Tags) readGroupRate(value []byte) (ok bool) {
	t.GroupLimits.Rates, ok = ParseRates(value)
	return ok
}

func (t *Tags) readGroupOrder(value []byte) (ok bool) {
	t.GroupOrder, ok = ParseGroupOrder(string(value))
	return ok
}

func (t *Tags) readConcurrency(value []byte) bool {
	return smallNumber(&t.Limits.Concurrency, value, MaxLimit)
}

func (t *Tags) readRate(value []byte) (ok bool) {
	t.Limits.Rates, ok = ParseRates(value)
	return ok
}

func (t *Tags) readWeight(value []byte) bool { return smallNumber(&t.Weight, value, MaxWeight) }

func (t *Tags) readTTL(value []byte) bool {
	t.HasTTL = true
	return wholeDuration(&t.TTL, value)
}
