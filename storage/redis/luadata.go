package redis

import (
	"fmt"
	"strings"

	"redstalk/tube"
)

// luaData is what both Go and Lua have to know. It is written once, in Go, and a script
// includes it by one of these names.
var luaData = map[string]func() string{
	"data: keys":              luaKeys,
	"data: sizes":             luaSizes,
	"data: call":              luaCall,
	"data: terms":             luaTerms,
	"data: record":            luaRecord,
	"data: rules":             luaRules,
	"data: verdicts":          luaVerdicts,
	"data: metadata":          luaMetadata,
	"data: after":             luaAfter,
	"data: placement":         luaPlacement,
	"data: heartbeat-timeout": luaHeartbeatTimeout,
	"data: counters":          luaCounters,
	"data: times":             luaTimes,
}

// luaKeys defines the format of ids in keys, and below which priority a job is urgent.
func luaKeys() string {
	return fmt.Sprintf("local ID_LENGTH, ID_FORMAT, URGENT_BELOW = %d, '%%0%d.0f', %d\n", idLen, idLen, tube.UrgentBelow)
}

// luaSizes defines from which size on a record is large, and the offset for GETRANGE of the
// last byte of the longest tube name in a record.
func luaSizes() string {
	return fmt.Sprintf("local LARGE, LONGEST_NAME = %d, '%d'\n", largeFrom, nameAt+longestName-1)
}

// luaCall defines where the operations of a batch begin in ARGV, the answer of a void batch,
// and the codes of the errors that refuse a batch.
func luaCall() string {
	const command = 4 // EVALSHA, the hash, the number of keys, and the key
	return fmt.Sprintf("local FIRST_OPERATION, VOIDED, LOST, UNSTAGED = %d, '%s', '%s', '%s'\n", headArgs-command+1, voided, lost, unstaged)
}

// luaTerms defines the offsets of the TTR and the priority in a record, from the first byte of
// the one to the last byte of the other, and how to unpack the two. Lua counts from 1.
func luaTerms() string {
	return fmt.Sprintf("local TERMS, TERMS_FROM, TERMS_TO = '>I4I4', %d, %d\n", ttrAt+1, delayAt)
}

// luaRecord is the layout of a record:
//
//   - NAME_AT is where the name of the tube begins. CREATED_FROM and CREATED_TO are the first
//     and the last byte of the creation time, as GETRANGE counts.
//   - PRIORITIES is among how many priorities the oldest ready job is looked for.
//   - LETTER maps the word of a state to the letter in the record of a job without metadata.
//     STATE is the reverse, also for jobs with metadata.
//   - read_header(raw) returns a table of the fields of a record, and of its tube.
//     pack_header(j) returns the bytes of the fields.
func luaRecord() string {
	var s, letter, state strings.Builder
	for _, st := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
		fmt.Fprintf(&letter, "%s = '%c', ", stateWord(st), recordLetter(st))
		if st != tube.Reserved { // which a record does not show
			fmt.Fprintf(&state, "%[1]c = '%[3]s', %[2]c = '%[3]s', ", recordLetter(st), recordLetter(st)+lowerCase, stateWord(st))
		}
	}
	format := ">"
	var names, fields, table []string
	for _, f := range headerFields {
		format += f.packed
		names, fields, table = append(names, f.name), append(fields, "j."+f.name), append(table, f.name+" = "+f.name)
	}
	fmt.Fprintf(&s, "local NAME_AT = %d\n", nameAt+1)
	fmt.Fprintf(&s, "local CREATED_FROM, CREATED_TO, PRIORITIES = '%d', '%d', %d\n", createdAt, countersAt-1, tube.MaxPriorities)
	fmt.Fprintf(&s, "local LETTER, STATE = { %s}, { %s}\n", &letter, &state)
	fmt.Fprintf(&s, "local function read_header(raw)\n  local %s = struct.unpack('%s', raw)\n", strings.Join(names, ", "), format)
	fmt.Fprintf(&s, "  local name = string.sub(raw, NAME_AT, NAME_AT - 1 + name_length)\n  return { tube = name, %s }\nend\n", strings.Join(table, ", "))
	fmt.Fprintf(&s, "local function pack_header(j)\n  return struct.pack('%s', %s)\nend\n", format, strings.Join(fields, ", "))
	return s.String()
}

// luaRules is the part of package tube's rules that is data. An arrow (state transition) is
// named by its move and its first state, such as 'release reserved':
//
//   - ARROW_TO is its second state, 'gone' if the job is deleted; nil if there is no such arrow.
//   - ARROW_HELD says whether it is only for the holder of the job.
//   - ARROW_COUNTS is the counter of the job that it increments.
//   - ARROW_ENDS says how it ends a reservation: see luaAfter.
//   - ARROW_SETS_PRI and ARROW_SETS_DELAY say which terms the job takes over.
//   - KICK_ORDER is the order of the states in which a kick looks for jobs.
func luaRules() string {
	var to, held, counts, ends, pri, delay, kick strings.Builder
	for _, a := range tube.Arrows() {
		name := fmt.Sprintf("['%s %s'] = ", a.Move, stateWord(a.From))
		fmt.Fprintf(&to, "%s'%s', ", name, stateWord(a.To))
		if a.Counts != tube.NoCounter {
			fmt.Fprintf(&counts, "%s'%s', ", name, a.Counts)
		}
		if a.Ends != tube.NoOutcome {
			fmt.Fprintf(&ends, "%s%d, ", name, a.Ends)
		}
		for column, ok := range map[*strings.Builder]bool{
			&held: a.Held, &pri: a.Sets != tube.SetsNothing, &delay: a.Sets == tube.SetsPriAndDelay,
		} {
			if ok {
				fmt.Fprintf(column, "%strue, ", name)
			}
		}
	}
	for _, state := range tube.KickOrder() {
		fmt.Fprintf(&kick, "'%s', ", stateWord(state))
	}
	return fmt.Sprintf("local ARROW_TO = { %s}\nlocal ARROW_HELD = { %s}\nlocal ARROW_COUNTS = { %s}\nlocal ARROW_ENDS = { %s}\n"+
		"local ARROW_SETS_PRI = { %s}\nlocal ARROW_SETS_DELAY = { %s}\nlocal KICK_ORDER = { %s}\nlocal DEFAULT_TUBE = '%s'\n",
		&to, &held, &counts, &ends, &pri, &delay, &kick, tube.Default)
}

// luaVerdicts defines the first number of the answers of operations on one job.
func luaVerdicts() string {
	return fmt.Sprintf("local NOT_FOUND, DONE, CUT = %d, %d, %d\n", refused, done, cutOff)
}

// luaHeartbeatTimeout defines for how many ms no instance may have sent a heartbeat before a
// repair.
func luaHeartbeatTimeout() string {
	return fmt.Sprintf("local HEARTBEAT_TIMEOUT = %d\n", watchHeartbeatsFor.Milliseconds())
}

// luaTimes is the fields of tube:TUBE that are histograms.
func luaTimes() string {
	return fmt.Sprintf("local TIMES = { '%s' }\n", strings.Join(timesFields, "', '"))
}

// luaCounters is the names of the counters of a job.
func luaCounters() string {
	var names strings.Builder
	for c := range tube.NumCounters {
		fmt.Fprintf(&names, "'%s', ", c)
	}
	return fmt.Sprintf("local COUNTERS = { %s}\n", &names)
}
