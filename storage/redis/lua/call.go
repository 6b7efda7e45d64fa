package lua

// HeadArgs is how many words come before the operations of a call: EVALSHA, the hash, the
// number of keys, the key, and what concerns the whole call.
const HeadArgs = 10

// Voided is what the script answers to a call that is marked void.
const Voided = "void;"

// Codes of the errors by which the script refuses a call.
const (
	// Lost: the call does not follow the last one that Redis knows of this instance.
	Lost = "LOST"

	// Unstaged: a staged record is missing.
	Unstaged = "UNSTAGED"
)

// DeclaredDead is in the error Lost if other instances have declared this one dead. Then Redis
// has lost no data.
const DeclaredDead = "declared dead"

// Verdict is the first number of the answers of operations on one job.
type Verdict int

// The verdicts.
const (
	Refused Verdict = iota // there is no such job
	Done
	CutOff  // it must be requested again
	NotKept // no record of the job would be kept

	Elsewhere // another instance holds the job
)
