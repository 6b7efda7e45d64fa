package protocol

import "strings"

// Right is a set of rights on a tube.
type Right uint8

const (
	MayPut   Right = 1 << iota // put jobs
	MayWork                    // reserve, delete, release, bury, touch
	MayList                    // stats, lists
	MayRead                    // peek, and all that says what jobs contain
	MayAdmin                   // kick, pause, flush, move, policies, drain
)

// rightWords are the words of the rights, in the order of the constants.
var rightWords = [...]string{"put", "work", "list", "read", "admin"}

// Words returns the word of each right in the set.
func (r Right) Words() (words []string) {
	for i, word := range rightWords {
		if r&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return words
}

// String returns the words of the set, separated by commas; "none" for the empty set.
func (r Right) String() string {
	if r == 0 {
		return "none"
	}
	return strings.Join(r.Words(), ",")
}

// ParseRight parses the word of one right.
func ParseRight(word string) (r Right, ok bool) {
	for i := range rightWords {
		if rightWords[i] == word {
			return 1 << i, true
		}
	}
	return 0, false
}

// Where says on which tubes an operation needs a right.
type Where uint8

const (
	Everywhere Where = iota // on every tube: the right must be given for "*"
	Somewhere               // on any tube
	OfTube                  // on the tube that it names, or that the connection uses
	OfTubes                 // on at least one of several tubes; the others are left out
	OfJob                   // on the tube of the job that it names by its id
	OfBatch                 // on the tubes of the batch that it names
	Free                    // on none: it concerns only the caller
)

// Need is what an operation needs. Nobody meets the zero Need: it is that of a verb whose row
// says nothing of rights. If a user has no right at all on a tube, its jobs are not
// found; if the user has other rights than the one needed, permission is denied.
type Need struct {
	One   Right // any one of these is enough
	Where Where
}

// Met reports whether a set of rights is enough.
func (n Need) Met(has Right) bool { return n.Where == Free || has&n.One != 0 }
