package redis

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// longestNamespace is in bytes. Every key, and every member of a queue, begins with
// the namespace, so a long one costs memory for each job twice.
const longestNamespace = 200

// CheckNamespace returns an error if a namespace cannot begin keys. Braces would be
// taken for the hash tag that says which node of a cluster has a key; and as there
// are none, no key of one namespace begins like those of another. Control characters
// would be invisible wherever keys are shown. All else is allowed, as it has always
// been: blanks between words, and what patterns are made of, * ? [ ] and \, which
// is escaped in the one pattern there is, that of a check.
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
