package schema

import "redstalk/tube"

// StateWord returns the name of a state in scripts, which is that in keys and stats-job.
func StateWord(s tube.State) string {
	if s == tube.Gone {
		return "gone"
	}
	return s.String()
}

// StateOf is the inverse of StateWord.
func StateOf(word string) tube.State {
	for _, s := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
		if StateWord(s) == word {
			return s
		}
	}
	return tube.Gone
}
