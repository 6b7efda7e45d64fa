package schema

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// DefaultNamespace is the beginning of all keys if none is chosen.
const DefaultNamespace = "redstalk"

// longestNamespace is in bytes. Every key, and every member of a queue, begins with the
// namespace, so a long one costs memory twice for each job.
const longestNamespace = 200

// CheckNamespace returns an error if a namespace cannot be the beginning of keys. Braces would
// be taken for the hash tag that decides which node of a cluster has a key; without them, no
// key of one namespace begins like those of another. Control characters would be invisible
// wherever keys are shown. Everything else is allowed, such as blanks between words, and * ? [
// ] and \, which the only pattern, that of fsck, escapes.
func CheckNamespace(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("empty namespace")
	case len(name) > longestNamespace:
		return fmt.Errorf("the namespace has %d bytes, and may have %d", len(name), longestNamespace)
	case strings.ContainsAny(name, "{}"):
		return fmt.Errorf("the namespace %q has a brace in it, by which Redis would look for its keys in the wrong place", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the namespace %q has a control character in it", name)
	}
	return nil
}
