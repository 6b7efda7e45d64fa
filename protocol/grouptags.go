package protocol

import "redstalk/tube/field"

// This file parses what concerns groups and limits.

const (
	// MaxGroup is the longest name of a group, in bytes.
	MaxGroup = 128
	// MaxGroupCursor is the longest cursor of list-groups, in bytes.
	MaxGroupCursor = (MaxGroup*4 + 2) / 3
)

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
	} else if !field.Printable(word, MaxGroup) {
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
	return ok && c.endTags(args, field.InGroup)
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
	return field.Printable(value, MaxGroup) || ValidGroup(t.Group)
}

func (t *Tags) readWeight(value []byte) bool { return smallNumber(&t.Weight, value, MaxWeight) }

func (t *Tags) readTTL(value []byte) bool {
	t.HasTTL = true
	return wholeDuration(&t.TTL, value)
}
