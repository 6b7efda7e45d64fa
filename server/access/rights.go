package access

import (
	"fmt"
	"strings"
)

// Right is a set of things that may be done with a tube.
type Right uint8

const (
	Put   Right = 1 << iota // put jobs
	Work                    // reserve, delete, release, bury, touch
	Read                    // peek, stats, lists
	Admin                   // kick, pause, flush, move, policies, drain

	// Nothing is the empty set, All the full one.
	Nothing Right = 0
	All           = Put | Work | Read | Admin
)

var rightWords = []struct {
	word  string
	right Right
}{{"put", Put}, {"work", Work}, {"look", Read}, {"admin", Admin}}

// String is the words of the file, with commas.
func (r Right) String() string {
	var words []string
	for _, w := range rightWords {
		if r&w.right != 0 {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ",")
}

// parseRight reads one word of the file.
func parseRight(word string) (Right, error) {
	for _, w := range rightWords {
		if w.word == word {
			return w.right, nil
		}
	}
	return Nothing, fmt.Errorf("a right is none of put, work, look and admin")
}

// rule is one entry of a user's rights.
type rule struct {
	globs []string
	may   Right
}

// User is somebody who may do something. It never changes.
type User struct {
	name       string
	rules      []rule
	secrets    []hash
	limits     limits
	account    *account
	anywhere   Right // what it may do with some tube
	everywhere Right // what it may do with every tube
}

// Name is the user's name in the file; "anonymous" for those who have not said who they
// are.
func (u *User) Name() string { return u.name }

// On returns what the user may do with a tube, whether that exists or not.
func (u *User) On(tube string) Right {
	if u.everywhere == u.anywhere {
		return u.everywhere
	}
	r := u.everywhere
	for i := range u.rules {
		if rule := &u.rules[i]; rule.may&^r != 0 && rule.covers(tube) {
			r |= rule.may
		}
	}
	return r
}

// Anywhere returns what the user may do with at least one tube that there could be.
func (u *User) Anywhere() Right { return u.anywhere }

// Everywhere returns what the user may do with every tube: the rights of rules for "*".
func (u *User) Everywhere() Right { return u.everywhere }

// May reports whether the user has what an operation needs that is about a tube.
func (u *User) May(n Need, tube string) bool { return n.Met(u.On(tube)) }

// MayRedirect reports whether the user may have the jobs of a tube go to another one, or out of
// the server ("") to whoever is called there: jobs leave a tube only for those who may work on
// it, and enter one only from those who may put.
func (u *User) MayRedirect(from, to string) bool {
	return from == to || u.On(from)&Work != 0 && (to == "" || u.On(to)&Put != 0)
}

// Visible returns those of several tubes on which the user has one of these rights. It
// may be the same slice.
func (u *User) Visible(tubes []string, one Right) []string {
	if u.everywhere&one != 0 {
		return tubes
	}
	var visible []string
	for _, name := range tubes {
		if u.On(name)&one != 0 {
			visible = append(visible, name)
		}
	}
	return visible
}

// sum computes what follows from the rules.
func (u *User) sum() {
	for _, r := range u.rules {
		u.anywhere |= r.may
		for _, glob := range r.globs {
			if strings.Trim(glob, "*") == "" {
				u.everywhere |= r.may
			}
		}
	}
}

func (r *rule) covers(tube string) bool {
	for _, glob := range r.globs {
		if matches(glob, tube) {
			return true
		}
	}
	return false
}

// matches reports whether a name is one that the glob stands for: * is any number of any
// bytes, ? is one. It takes at most as many steps as the product of the lengths.
func matches(glob, name string) bool {
	star, from := -1, 0 // the last * and where the name went on behind it
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			from++
			g, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
