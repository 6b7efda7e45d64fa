package lua

import (
	"fmt"
	"strings"

	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// data is what both Go and Lua have to know. It is written once, in Go, and a script
// includes it by one of these names.
var data = map[string]func() string{
	"data: keys":              keys,
	"data: sizes":             sizes,
	"data: call":              call,
	"data: terms":             terms,
	"data: record":            record,
	"data: rules":             rules,
	"data: verdicts":          verdicts,
	"data: metadata":          metadata,
	"data: lease":             lease,
	"data: after":             after,
	"data: placement":         placement,
	"data: heartbeat-timeout": heartbeatTimeout,
	"data: counters":          counters,
	"data: times":             times,
	"data: limits":            limits,
	"data: policies":          policies,
	"data: named":             named,
	"data: jobbatches":        jobBatches,
	"data: tallies":           tallies,
	"data: ended":             ended,
	"data: hung":              hung,
}

// hung defines for how many times its TTR a job is held before it counts as hung.
func hung() string { return fmt.Sprintf("local HUNG_AFTER = %d\n", tube.HungAfter) }

// keys defines the format of ids in keys, and below which priority a job is urgent.
func keys() string {
	return fmt.Sprintf("local ID_LENGTH, ID_FORMAT, URGENT_BELOW = %d, '%%0%d.0f', %d\n", schema.IDLen, schema.IDLen, tube.UrgentBelow)
}

// sizes defines from which size on a record is large, and the offset for GETRANGE of the
// last byte of the longest tube name in a record.
func sizes() string {
	return fmt.Sprintf("local LARGE, LONGEST_NAME = %d, '%d'\n", schema.LargeFrom, schema.NameAt+schema.LongestName-1)
}

// call defines where the operations of a call begin in ARGV, the answer of a void call,
// and the codes of the errors that refuse a call.
func call() string {
	const command = 4 // EVALSHA, the hash, the number of keys, and the key
	return fmt.Sprintf("local FIRST_OPERATION, VOIDED, LOST, UNSTAGED = %d, '%s', '%s', '%s'\n", HeadArgs-command+1, Voided, Lost, Unstaged)
}

// terms defines the offsets of the TTR and the priority in a record, from the first byte of
// the one to the last byte of the other, how to unpack the two, and where the name of the tube
// begins. Lua counts from 1.
func terms() string {
	return fmt.Sprintf("local TERMS, TERMS_FROM, TERMS_TO, NAME_AT = '>I4I4', %d, %d, %d\n", schema.TTRAt+1, schema.DelayAt, schema.NameAt+1)
}

// record is the layout of a record:
//
//   - NAME_AT is where the name of the tube begins. CREATED_FROM and CREATED_TO are the first
//     and the last byte of the creation time, as GETRANGE counts.
//   - PRIORITIES is among how many priorities the oldest ready job is looked for.
//   - HELD_SCORE is the score of held after-jobs in delayed:TUBE, HELD_BY_BATCH the answer that says why they are held.
//   - LETTER maps the word of a state to the letter in the record of a job without metadata.
//     STATE is the reverse, also for jobs with metadata.
//   - read_header(raw) returns a table of the fields of a record, and of its tube.
//     pack_header(j) returns the bytes of the fields.
func record() string {
	var s, letter, state strings.Builder
	for _, st := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
		fmt.Fprintf(&letter, "%s = '%c', ", schema.StateWord(st), schema.Letter(st))
		if st != tube.Reserved { // which a record does not show
			fmt.Fprintf(&state, "%[1]c = '%[3]s', %[2]c = '%[3]s', ", schema.Letter(st), schema.Letter(st)+schema.LowerCase, schema.StateWord(st))
		}
	}
	format := ">"
	var names, fields, table []string
	for _, f := range schema.HeaderFields {
		format += f.Packed
		names, fields, table = append(names, f.Name), append(fields, "j."+f.Name), append(table, f.Name+" = "+f.Name)
	}
	fmt.Fprintf(&s, "local NAME_AT = %d\n", schema.NameAt+1)
	fmt.Fprintf(&s, "local CREATED_FROM, CREATED_TO, PRIORITIES = '%d', '%d', %d\n", schema.CreatedAt, schema.CountersAt-1, tube.MaxPriorities)
	fmt.Fprintf(&s, "local HELD_SCORE, HELD_BY_BATCH = '%d', '%d;'\n", int64(schema.HeldScore), tube.HeldByBatch)
	fmt.Fprintf(&s, "local LETTER, STATE = { %s}, { %s}\n", &letter, &state)
	fmt.Fprintf(&s, "local function read_header(raw)\n  local %s = struct.unpack('%s', raw)\n", strings.Join(names, ", "), format)
	fmt.Fprintf(&s, "  local name = string.sub(raw, NAME_AT, NAME_AT - 1 + name_length)\n  return { tube = name, %s }\nend\n", strings.Join(table, ", "))
	fmt.Fprintf(&s, "local function pack_header(j)\n  return struct.pack('%s', %s)\nend\n", format, strings.Join(fields, ", "))
	return s.String()
}

// rules is the part of package tube's rules that is data. An arrow (state transition) is
// named by its move and its first state, such as 'release reserved':
//
//   - ARROW_TO is its second state, 'gone' if the job is deleted; nil if there is no such arrow.
//   - ARROW_HELD says whether it is only for the holder of the job.
//   - ARROW_COUNTS is the counter of the job that it increments.
//   - ARROW_ENDS says how it ends a reservation: see after.
//   - ARROW_SETS_PRI and ARROW_SETS_DELAY say which terms the job takes over.
//   - KICK_ORDER is the order of the states in which a kick looks for jobs.
func rules() string {
	var to, held, counts, ends, pri, delay, kick strings.Builder
	for _, a := range tube.Arrows() {
		name := fmt.Sprintf("['%s %s'] = ", a.Move, schema.StateWord(a.From))
		fmt.Fprintf(&to, "%s'%s', ", name, schema.StateWord(a.To))
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
		fmt.Fprintf(&kick, "'%s', ", schema.StateWord(state))
	}
	return fmt.Sprintf("local ARROW_TO = { %s}\nlocal ARROW_HELD = { %s}\nlocal ARROW_COUNTS = { %s}\nlocal ARROW_ENDS = { %s}\n"+
		"local ARROW_SETS_PRI = { %s}\nlocal ARROW_SETS_DELAY = { %s}\nlocal KICK_ORDER = { %s}\nlocal DEFAULT_TUBE = '%s'\n",
		&to, &held, &counts, &ends, &pri, &delay, &kick, tube.Default)
}

// verdicts defines the first number of the answers of operations on one job.
func verdicts() string {
	return fmt.Sprintf("local NOT_FOUND, DONE, CUT, NOT_KEPT, ELSEWHERE = %d, %d, %d, %d, %d\n", Refused, Done, CutOff, NotKept, Elsewhere)
}

// heartbeatTimeout defines for how many ms no instance may have sent a heartbeat before a
// repair.
func heartbeatTimeout() string {
	return fmt.Sprintf("local HEARTBEAT_TIMEOUT = %d\n", (schema.HeartbeatTimeout + schema.SlowCall).Milliseconds())
}

// times is the fields of tube:TUBE that are histograms.
func times() string {
	return fmt.Sprintf("local TIMES = { '%s' }\n", strings.Join(schema.TimesFields, "', '"))
}

// limits defines the periods of rates in ms, why jobs are held, and the order of strict groups.
func limits() string {
	var periods strings.Builder
	for _, p := range tube.RatePeriods {
		fmt.Fprintf(&periods, "%d, ", p.Milliseconds())
	}
	return fmt.Sprintf("local PERIODS, STRICT, MAX_BUSIEST = { %s}, %d, %d\n", &periods, tube.Strict, tube.MaxBusiest) +
		fmt.Sprintf("local NOT_HELD, HELD_BY_PAUSE, HELD_BY_CONCURRENCY, HELD_BY_RATE = %d, %d, %d, %d\n",
			tube.NotHeld, tube.HeldByPause, tube.HeldByConcurrency, tube.HeldByRate)
}

// named defines the names of schema.NamedKinds, and for how many ms a named record is claimed.
func named() string {
	var kinds strings.Builder
	for _, kind := range schema.NamedKinds {
		fmt.Fprintf(&kinds, "'%s', ", kind.Name)
	}
	return fmt.Sprintf("local NAMED, CLAIM = { %s}, %d\n", &kinds, tube.ClaimTime.Milliseconds())
}

// jobBatches defines when the record of a batch is due that no put says to be, in ms, why after-jobs are parked, and the
// verdicts that nothing is known, and that a batch was not sealed in time.
func jobBatches() string {
	return fmt.Sprintf("local DEFAULT_TTL, OPEN, UNSEALED = %d, %d, %d\n", tube.DefaultBatchTTL.Milliseconds(), tube.BatchOpen, tube.BatchUnsealed) +
		fmt.Sprintf("local NOT_PARKED, PARKED_FAILED, PARKED_UNSEALED = %d, %d, %d\n", tube.NotParked, tube.ParkedBatchFailed, tube.ParkedBatchUnsealed) +
		fmt.Sprintf("local MAX_AFTER = %d\n", tube.MaxAfter)
}

// tallies defines the periods of tallies, by which of them tubes are dropped, and for how many seconds it is known what was added.
func tallies() string {
	var periods strings.Builder
	for p := range tube.NumPeriods {
		fmt.Fprintf(&periods, "{ name = '%s', ms = %d, kept = %d }, ", p, p.Length().Milliseconds(), p.Kept())
	}
	return fmt.Sprintf("local TALLY_PERIODS, MAX_TALLIED, TRIM_TALLIED, TALLIED_FOR = { %s}, %d, %d, '86400'\n", &periods, tube.MaxTallied, tube.TrimTallied)
}

// ended is the form of chunks of records of ended jobs, see package schema: ENDED_FORMAT is for what precedes its records, of which ENDED_HEAD has the index
// of the last byte if there is one; ENDED_RECORD for a record without its length up to the header, ENDED_HELD for one with it up to the holder, and
// ENDED_HELD_LENGTH what that length is without the holder, the tube and the metadata. ENDED_HOW has the numbers of tube.How by their words, and
// GROUP_BLOCK the size of the metadata of a job that says only its group, without that. A chunk has up to ENDED_TOGETHER records, and another one begins
// once it has ENDED_CHUNK bytes. Up to ENDED_FEW records of a call are appended to one that was begun less than ENDED_OPEN ms ago: they have ENDED_MARK
// before them, and the counts are at the index ENDED_COUNTS. A call drops up to about ENDED_AT_ONCE records because of bounds, and looks at up
// to ENDED_LOOK chunks for a page. Records of up to ENDED_READ_WHOLE bytes are read whole.
func ended() string {
	var how strings.Builder
	for h := tube.Done; h < tube.StillParked; h++ {
		fmt.Fprintf(&how, "%s = %d, ", h, h)
	}
	return fmt.Sprintf("local ENDED_FEW, ENDED_OPEN, ENDED_MARK, ENDED_COUNTS = %d, %d, %d, '%d'\n", 20, schema.EndedOpen.Milliseconds(), schema.EndedMark, schema.EndedCounts) +
		fmt.Sprintf("local ENDED_FORMAT, ENDED_HEAD, ENDED_OVERHEAD = '%s', '%d', %d\n", schema.EndedFormat, schema.EndedHead-1, (&tube.Ended{}).Bytes()) +
		fmt.Sprintf("local ENDED_RECORD, ENDED_HELD, ENDED_HELD_LENGTH = '>%s', '>I4%s', %d\n", schema.EndedRecord+"Bc0Bc0", schema.EndedRecord, schema.EndedFixed+schema.NameAt) +
		fmt.Sprintf("local ENDED_HOW = { %s}\n", &how) +
		fmt.Sprintf("local DEFAULT_KEEP_BYTES, GROUP_BLOCK, ENDED_MESSAGE = %d, %d, '%s'\n", tube.DefaultKeepBytes, schema.MaxGroupBlock-255, schema.EndedMessage) +
		fmt.Sprintf("local ENDED_TOGETHER, ENDED_CHUNK, ENDED_AT_ONCE, ENDED_LOOK, ENDED_READ_WHOLE = %d, %d, %d, %d, %d\n", 100, 32<<10, 2000, tube.MaxListed+1, 1024)
}

// counters is the names of the counters of a job.
func counters() string {
	var names strings.Builder
	for c := range tube.NumCounters {
		fmt.Fprintf(&names, "'%s', ", c)
	}
	return fmt.Sprintf("local COUNTERS = { %s}\n", &names)
}

// policies is how the words of a policy's text are read:
//
//   - POLICY_FIELD maps the name of a word to that of the field in the policy's table.
//   - POLICY_KIND maps it to the kind of its value, a schema.PolicyKind.
func policies() string {
	var fields, kinds strings.Builder
	for name, kind := range schema.PolicyWords() {
		fmt.Fprintf(&fields, "['%s'] = '%s', ", name, strings.ReplaceAll(name, "-", "_"))
		fmt.Fprintf(&kinds, "['%s'] = '%s', ", name, kind)
	}
	return fmt.Sprintf("local POLICY_FIELD = { %s}\nlocal POLICY_KIND = { %s}\n", &fields, &kinds)
}
