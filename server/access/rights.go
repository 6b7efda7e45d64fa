package access

import (
	"fmt"
	"slices"
	"strings"

	"redstalk/protocol"
	"redstalk/server/sight"
)

// parseRight parses one word of the file. Who may read may list, too.
func parseRight(word string) (Right, error) {
	if word == "look" { // a former word, which is still accepted
		word = "read"
	}
	switch r, ok := protocol.ParseRight(word); {
	case !ok:
		return Nothing, fmt.Errorf("a right must be put, work, list, read or admin")
	case r == Read:
		return Read | List, nil
	default:
		return r, nil
	}
}

// rule is one entry of a user's rights.
type rule struct {
	globs []string
	may   Right
}

// User is a user and its rights. It never changes.
type User struct {
	name       string
	rules      []rule
	secrets    []hash
	people     []string // globs of the people who are this user, if a trusted proxy names them
	groups     []string // likewise, groups of people
	person     string   // who has signed on as this user at a trusted proxy; "": nobody
	limits     limits
	account    *account
	redaction  *sight.Redaction
	anywhere   Right // rights on at least one tube
	everywhere Right // rights on every tube

	batchOwner  string              // before the names of the user's own batches; "": they have no owner
	batchOwners map[string][]string // of all users: the globs of the tubes in which they can have jobs
}

// Name returns the user's name in the file; "anonymous" for unauthenticated clients.
func (u *User) Name() string { return u.name }

// Person returns the name of the person who has signed on as the user at a trusted proxy, or "".
func (u *User) Person() string { return u.person }

// On returns the user's rights on a tube, whether that exists or not.
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

// Anywhere returns the rights that the user has on at least one tube that could exist.
func (u *User) Anywhere() Right { return u.anywhere }

// Everywhere returns the user's rights on every tube: those of rules for "*".
func (u *User) Everywhere() Right { return u.everywhere }

// Sight returns what the user sees of the jobs of a tube.
func (u *User) Sight(tube string) sight.Sight { return sight.Of(u.On(tube), u.redaction) }

// SightWith returns what the user sees of the jobs of a tube on which these are the user's rights.
func (u *User) SightWith(rights Right) sight.Sight { return sight.Of(rights, u.redaction) }

// SeesAllValues reports whether no redaction hides anything from the user.
func (u *User) SeesAllValues() bool { return u.redaction == nil || u.everywhere&Admin != 0 }

// May reports whether the user's rights on a tube are what an operation needs.
func (u *User) May(n Need, tube string) bool { return n.Met(u.On(tube)) }

// MayRedirect reports whether the user may redirect the jobs of a tube to another tube, or, if
// to is "", out of the server to a URL. Jobs can leave a tube only with the right Work on it,
// and enter a tube only with the right Put.
func (u *User) MayRedirect(from, to string) bool {
	return from == to || u.On(from)&Work != 0 && (to == "" || u.On(to)&Put != 0)
}

// MaySendBack reports whether the user may send a dead letter back from a tube to the one where it
// was exhausted. It needs what moving it by move-jobs needs. If home is "", there is none.
func (u *User) MaySendBack(from, home string) bool {
	return home == "" || u.On(home)&Admin != 0 && u.MayRedirect(from, home)
}

// MaySeeClients reports whether the user may see the connections of all users.
func (u *User) MaySeeClients() bool { return u.everywhere&Admin != 0 }

// Own returns the user whose connections this one may see, and so "" for unauthenticated clients, who
// see nobody.
func (u *User) Own() string {
	if u.name == anonymous {
		return ""
	}
	return u.name
}

// Visible returns those of several tubes on which the user has at least one of these rights.
// It may return the same slice.
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

// sumRights computes anywhere and everywhere from the rules.
func (u *User) sumRights() {
	for _, r := range u.rules {
		u.anywhere |= r.may
		for _, glob := range r.globs {
			if strings.Trim(glob, "*") == "" {
				u.everywhere |= r.may
			}
		}
	}
}

// covers reports whether the rule is for a tube; or for all tubes of a pattern, which ends with *
// and is no name.
func (r *rule) covers(tube string) bool {
	names := []string{tube}
	if prefix, pattern := strings.CutSuffix(tube, "*"); pattern { // only a * of a glob matches many bytes of any value
		names = []string{prefix, prefix + strings.Repeat("\x00", protocol.MaxName)}
	}
	for _, glob := range r.globs {
		if !slices.ContainsFunc(names, func(name string) bool { return !matches(glob, name) }) {
			return true
		}
	}
	return false
}

// matches reports whether a glob matches a name: * stands for any number of any bytes, ? for
// one. If name is a glob, too, only the * of the other matches its *. It takes at most as many steps as the product of the lengths.
func matches(glob, name string) bool {
	star, from := -1, 0 // the last *, and where the name continued behind it
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && (glob[g] == '?' && name[n] != '*' || glob[g] == name[n]):
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
