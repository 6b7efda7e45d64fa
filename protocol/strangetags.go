package protocol

import (
	"bytes"
	"redstalk/tube/field"
	"strconv"
)

// This file is about lines whose tags are unknown, misspelled, or in the wrong place.

// skippedBody returns the length of the body that a malformed line announces; args follow its prefix. ok is
// false if there is none, or no colon. Clients of beanstalkd never send a colon in such a line, so the
// line comes from a client that uses tags, and what follows is a body: it must not be parsed as
// commands. Numbers other than the length can be malformed, and tags can be anywhere.
func (s *Spec) skippedBody(args []byte) (size uint32, ok bool) {
	if !s.Body || bytes.IndexByte(args, ':') < 0 {
		return 0, false
	}
	if size, ok = s.wordOfLength(args, looksLikeTag); !ok {
		size, ok = s.wordOfLength(args, func([]byte) bool { return false })
	}
	return size, ok
}

// wordOfLength parses the word that is the length of the body, without counting tags.
func (s *Spec) wordOfLength(args []byte, isTag func(word []byte) bool) (size uint32, ok bool) {
	for before := s.lengthAt; ; {
		word, rest := nextWord(args)
		switch {
		case len(word) == 0:
			return 0, false
		case isTag(word):
			args = skipSpaces(args)
			value := args[bytes.IndexByte(args, ':')+1:]
			rest = value[valueEnd(value, bytes.HasPrefix(word, []byte(metaTag+":"))):]
		case before == 0:
			size, _, ok = u32(word)
			return size, ok
		default:
			before--
		}
		args = rest
	}
}

// looksLikeTag reports whether a word has the form NAME:VALUE.
func looksLikeTag(word []byte) bool {
	return bytes.IndexByte(word, ':') >= 0 && (word[0] < '0' || word[0] > '9')
}

// skippedLine returns the command of a line that is bad before it is parsed, if it announces a body
// that must be skipped. Otherwise it returns the fault alone.
func skippedLine(line []byte, why string) Command {
	verb := lookup(line)
	spec := &table[verb]
	size, ok := spec.skippedBody(line[min(len(line), len(spec.Prefix)):])
	if !ok {
		return Command{Fault: BadFormat}
	}
	return Command{Verb: verb, Wrong: why, size: size, badTags: true}
}

// strange says which word in args is no tag of these commands, and what was perhaps meant. It returns "" if
// args have no colon: then they are junk, as beanstalkd has it.
func strange(args []byte, in field.Commands) string {
	if bytes.IndexByte(args, ':') < 0 {
		return ""
	}
	for len(args) > 0 && args[0] == ' ' {
		row, _, rest := cutTag(args, in)
		if row < 0 {
			word, _ := nextWord(args)
			return noTag(word, in)
		}
		args = rest
	}
	return "a space is missing before a tag"
}

// noTag says why a word is no tag of these commands.
func noTag(word []byte, in field.Commands) string {
	name, _, found := bytes.Cut(word, []byte(":"))
	short := string(name[:min(len(name), 64)])
	_, known := tagRows[short]
	switch {
	case len(word) == 0:
		return "there is a space after the last tag"
	case !found:
		return strconv.Quote(short) + " is no tag: there is no colon"
	case known:
		return "the tag " + short + " is one of other commands"
	}
	var names []string
	for _, tag := range TagsIn(in) {
		names = append(names, tag.Name)
	}
	if meant := Closest(short, names); meant != "" {
		return "there is no tag " + strconv.Quote(short) + "; did you mean " + meant + "?"
	}
	return "there is no tag " + strconv.Quote(short)
}
