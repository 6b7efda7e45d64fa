package protocol

import "strings"

// Verb is a command word. The constants are in the order in which the words are
// tried against a line; the first matching prefix wins. It is beanstalkd's order,
// with the extensions at positions where they hide none of beanstalkd's words.
type Verb uint8

const (
	Unknown Verb = iota
	Put
	Peek
	PeekReady
	PeekDelayed
	PeekBuried
	ReserveWithTimeout
	ReserveJob
	ReserveBatch
	ReserveLease
	Reserve
	Delete
	DeleteBatch
	DeleteLease
	DeleteKey
	Finish
	FinishLease
	WaitJob
	Release
	ReleaseLease
	Bury
	BuryLease
	Kick
	KickJob
	Touch
	TouchLease
	Checkpoint
	CheckpointLease
	GetCheckpoint
	StatsJob
	StatsTube
	StatsGroup
	StatsBatch
	StatsEnded
	Stats
	Use
	Watch
	Ignore
	ListTubesWatched
	ListTubeUsed
	ListTubes
	Quit
	PauseTube
	Drain
	Undrain
	Capabilities
	Reschedule
	SetPriority
	SetPolicy
	GetPolicy
	ListPolicies
	ListJobs
	ListEnded
	Find
	FlushTube
	MoveJobs
	ReplayJob
	Auth
	NameClient
	ListClients
	SetGroup
	GetGroup
	ListGroups
	PauseGroup
	FlushGroup
	SetSchedule
	GetSchedule
	ListSchedules
	DeleteSchedule
	PauseSchedule
	ResumeSchedule
	RunSchedule
	PreviewSchedule
	SealBatch
	ListBatches
	ListMembers
	CancelBatch
	HistoryTube
	History

	// NumVerbs is the size of an array indexed by Verb, including Unknown.
	NumVerbs
)

// Spec is a row of the verb table.
type Spec struct {
	// Prefix is what a line must begin with. Words that take an argument include the
	// one space that must follow, except pause-tube, which needs none.
	Prefix string
	// Exact says that nothing may follow the prefix. If something does, the
	// line is BAD_FORMAT, not UNKNOWN_COMMAND, and no other word is tried.
	Exact bool
	// Extension says that beanstalkd does not know the word. A longer word that begins with
	// it is unknown; so is a longer line if Exact is set too.
	Extension bool
	// Body says that a body follows the line. parse sets Command.size to its
	// length.
	Body bool
	// lengthAt is how many words come before the length of the body.
	lengthAt int
	// MaxBody is the longest body in bytes, without its CRLF, whatever the Reader's limits are; 0: these apply.
	MaxBody int
	// MaxLine is the longest line of the verb in bytes, including CRLF. 0 means the
	// constant MaxLine. MaxTagLine applies only to lines with tags, unless Long is set; others are limited
	// by the constant.
	MaxLine int
	// Long says that lines without tags can have MaxLine bytes, too.
	Long bool
	// Done is the reply to a command that was carried out, if it is nothing but a word.
	Done string
	// Need is the right that the command needs. Further rights follow from what it names: the
	// other tube of move-jobs, that to which replay-job sends a job, the dead-letter tube of a put, and that and the URL of set-policy.
	Need Need
	// Counter is the key of the stats page that counts the verb, "" if none.
	Counter string

	// parse parses what follows the prefix. If it returns false, the line is
	// BAD_FORMAT and is not counted. If it returns true but sets Command.Fault,
	// the command is still counted. If parse is nil, what follows the prefix is
	// ignored.
	parse func(c *Command, args []byte) bool
}

// twoNames is the longest line of a verb with two tubes, or with a tube and a key or
// cursor.
const twoNames = 450

// free is what a command needs that concerns only its connection.
var free = Need{Where: Free}

// ofSchedule is what a command needs that reads schedules: it sees those of tubes on which this right is given.
var ofSchedule = Need{MayList | MayAdmin, Somewhere}

const anyRight = MayPut | MayWork | MayList | MayRead | MayAdmin

var table = [NumVerbs]Spec{
	Put:                {Prefix: "put ", Body: true, lengthAt: 3, MaxLine: MaxTagLine, Counter: "cmd-put", Need: Need{MayPut, OfTube}, parse: parsePut},
	Peek:               {Prefix: "peek ", Counter: "cmd-peek", Need: Need{MayRead, OfJob}, parse: parseID},
	PeekReady:          {Prefix: "peek-ready", Exact: true, Counter: "cmd-peek-ready", Need: Need{MayRead, OfTube}},
	PeekDelayed:        {Prefix: "peek-delayed", Exact: true, Counter: "cmd-peek-delayed", Need: Need{MayRead, OfTube}},
	PeekBuried:         {Prefix: "peek-buried", Exact: true, Counter: "cmd-peek-buried", Need: Need{MayRead, OfTube}},
	ReserveWithTimeout: {Prefix: "reserve-with-timeout ", Counter: "cmd-reserve-with-timeout", Need: Need{MayWork, OfTubes}, parse: parseTimeout},
	ReserveJob:         {Prefix: "reserve-job ", Need: Need{MayWork, OfJob}, parse: parseID},
	ReserveBatch:       {Prefix: "reserve-batch ", Extension: true, Need: Need{MayWork, OfTubes}, parse: parseReserveBatch},
	ReserveLease:       {Prefix: "reserve-lease ", Extension: true, Need: Need{MayWork, OfTubes}, parse: parseReserveLease},
	Reserve:            {Prefix: "reserve", Exact: true, Counter: "cmd-reserve", Need: Need{MayWork, OfTubes}},
	Delete:             {Prefix: "delete ", Counter: "cmd-delete", Done: "DELETED", Need: Need{MayWork, OfJob}, parse: parseID},
	DeleteBatch:        {Prefix: "delete-batch ", Extension: true, MaxLine: 16 << 10, Need: Need{MayWork, OfJob}, parse: parseDeleteBatch},
	DeleteLease:        {Prefix: "delete-lease ", Extension: true, Done: "DELETED", Need: Need{MayWork, OfJob}, parse: parseLease},
	DeleteKey:          {Prefix: "delete-key ", Extension: true, MaxLine: twoNames, Done: "DELETED", Need: Need{MayWork, OfTube}, parse: parseKey},
	Finish:             {Prefix: "finish ", Extension: true, Body: true, lengthAt: 1, MaxBody: MaxResult, Done: "FINISHED", Need: Need{MayWork, OfJob}, parse: parseIDAndSize},
	FinishLease:        {Prefix: "finish-lease ", Extension: true, Body: true, lengthAt: 2, MaxBody: MaxResult, Done: "FINISHED", Need: Need{MayWork, OfJob}, parse: parseLeaseAndSize},
	WaitJob:            {Prefix: "wait-job ", Extension: true, Need: Need{MayRead, OfJob}, parse: parseWaitJob},
	Release:            {Prefix: "release ", MaxLine: MaxTagLine, Counter: "cmd-release", Done: "RELEASED", Need: Need{MayWork, OfJob}, parse: parseRelease},
	ReleaseLease:       {Prefix: "release-lease ", Extension: true, MaxLine: MaxTagLine, Done: "RELEASED", Need: Need{MayWork, OfJob}, parse: parseReleaseLease},
	Bury:               {Prefix: "bury ", MaxLine: MaxTagLine, Counter: "cmd-bury", Done: "BURIED", Need: Need{MayWork, OfJob}, parse: parseBury},
	BuryLease:          {Prefix: "bury-lease ", Extension: true, MaxLine: MaxTagLine, Done: "BURIED", Need: Need{MayWork, OfJob}, parse: parseBuryLease},
	Kick:               {Prefix: "kick ", Counter: "cmd-kick", Need: Need{MayAdmin, OfTube}, parse: parseKick},
	KickJob:            {Prefix: "kick-job ", Done: "KICKED", Need: Need{MayAdmin, OfJob}, parse: parseKickJob},
	Touch:              {Prefix: "touch ", MaxLine: MaxTagLine, Counter: "cmd-touch", Done: "TOUCHED", Need: Need{MayWork, OfJob}, parse: parseTouch},
	TouchLease:         {Prefix: "touch-lease ", Extension: true, MaxLine: MaxTagLine, Done: "TOUCHED", Need: Need{MayWork, OfJob}, parse: parseTouchLease},
	Checkpoint:         {Prefix: "checkpoint ", Extension: true, Body: true, lengthAt: 1, MaxBody: MaxCheckpoint, Done: "SAVED", Need: Need{MayWork, OfJob}, parse: parseIDAndSize},
	CheckpointLease:    {Prefix: "checkpoint-lease ", Extension: true, Body: true, lengthAt: 2, MaxBody: MaxCheckpoint, Done: "SAVED", Need: Need{MayWork, OfJob}, parse: parseLeaseAndSize},
	GetCheckpoint:      {Prefix: "get-checkpoint ", Extension: true, Need: Need{MayRead | MayWork, OfJob}, parse: parseID},
	StatsJob:           {Prefix: "stats-job ", Counter: "cmd-stats-job", Need: Need{MayList, OfJob}, parse: parseID},
	StatsTube:          {Prefix: "stats-tube ", Counter: "cmd-stats-tube", Need: Need{MayList, OfTube}, parse: parseName},
	StatsGroup:         {Prefix: "stats-group ", Extension: true, MaxLine: MaxTagLine, Long: true, Need: Need{MayList, OfTube}, parse: parseGroup},
	StatsBatch:         {Prefix: "stats-batch ", Extension: true, Need: Need{MayList, OfBatch}, parse: parseBatch},
	StatsEnded:         {Prefix: "stats-ended ", Extension: true, Need: Need{MayList, OfJob}, parse: parseID},
	Stats:              {Prefix: "stats", Exact: true, Counter: "cmd-stats", Need: Need{MayList, Somewhere}},
	Use:                {Prefix: "use ", Counter: "cmd-use", Need: Need{anyRight, OfTube}, parse: parseName},
	Watch:              {Prefix: "watch ", Counter: "cmd-watch", Need: Need{MayWork, OfTube}, parse: parseWatch},
	Ignore:             {Prefix: "ignore ", Counter: "cmd-ignore", Need: free, parse: parseName},
	ListTubesWatched:   {Prefix: "list-tubes-watched", Exact: true, Counter: "cmd-list-tubes-watched", Need: free},
	ListTubeUsed:       {Prefix: "list-tube-used", Exact: true, Counter: "cmd-list-tube-used", Need: free},
	ListTubes:          {Prefix: "list-tubes", Exact: true, Counter: "cmd-list-tubes", Need: Need{MayList, OfTubes}},
	Quit:               {Prefix: "quit", Need: free},
	PauseTube:          {Prefix: "pause-tube", Counter: "cmd-pause-tube", Done: "PAUSED", Need: Need{MayAdmin, OfTube}, parse: parsePause},
	Drain:              {Prefix: "drain", Extension: true, Exact: true, Done: "DRAINING", Need: Need{MayAdmin, Everywhere}},
	Undrain:            {Prefix: "undrain", Extension: true, Exact: true, Done: "NOT_DRAINING", Need: Need{MayAdmin, Everywhere}},
	Capabilities:       {Prefix: "capabilities", Extension: true, Exact: true, Need: free},
	Reschedule:         {Prefix: "reschedule ", Extension: true, Done: "RESCHEDULED", Need: Need{MayAdmin, OfJob}, parse: parseIDAndTime},
	SetPriority:        {Prefix: "set-priority ", Extension: true, Done: "UPDATED", Need: Need{MayAdmin, OfJob}, parse: parseIDAndPri},
	SetPolicy:          {Prefix: "set-policy ", Extension: true, MaxLine: MaxTagLine, Long: true, Done: "SET", Need: Need{MayAdmin, OfTube}, parse: parseSetPolicy},
	GetPolicy:          {Prefix: "get-policy ", Extension: true, Need: Need{MayAdmin, OfTube}, parse: parseScope},
	ListPolicies:       {Prefix: "list-policies", Extension: true, Exact: true, Need: Need{MayAdmin, OfTubes}},
	ListJobs:           {Prefix: "list-jobs ", Extension: true, MaxLine: twoNames, Need: Need{MayList, OfTube}, parse: parseListJobs},
	ListEnded:          {Prefix: "list-ended ", Extension: true, MaxLine: twoNames, Need: Need{MayList, OfTube}, parse: parseListEnded},
	Find:               {Prefix: "find ", Extension: true, MaxLine: twoNames, Need: Need{MayRead, OfTube}, parse: parseKey},
	FlushTube:          {Prefix: "flush-tube ", Extension: true, Need: Need{MayAdmin, OfTube}, parse: parseFlush},
	MoveJobs:           {Prefix: "move-jobs ", Extension: true, MaxLine: twoNames, Need: Need{MayAdmin, OfTube}, parse: parseMoveJobs},
	ReplayJob:          {Prefix: "replay-job ", Extension: true, Done: "REPLAYED", Need: Need{MayAdmin, OfJob}, parse: parseKickJob},
	Auth:               {Prefix: "auth ", Extension: true, Done: "AUTHENTICATED", Need: free, parse: parseAuth},
	NameClient:         {Prefix: "client ", Extension: true, Done: "NAMED", Need: free, parse: parseNameClient},
	ListClients:        {Prefix: "list-clients", Extension: true, Need: Need{MayList, Somewhere}, parse: parseListClients},
	SetGroup:           {Prefix: "set-group ", Extension: true, MaxLine: MaxTagLine, Long: true, Done: "SET", Need: Need{MayAdmin, OfTube}, parse: parseSetGroup},
	GetGroup:           {Prefix: "get-group ", Extension: true, MaxLine: MaxTagLine, Long: true, Need: Need{MayAdmin, OfTube}, parse: parseGroup},
	ListGroups:         {Prefix: "list-groups ", Extension: true, MaxLine: twoNames, Need: Need{MayList, OfTube}, parse: parseListGroups},
	PauseGroup:         {Prefix: "pause-group ", Extension: true, MaxLine: MaxTagLine, Long: true, Done: "PAUSED", Need: Need{MayWork, OfTube}, parse: parsePauseGroup},
	FlushGroup:         {Prefix: "flush-group ", Extension: true, MaxLine: MaxTagLine, Long: true, Need: Need{MayAdmin, OfTube}, parse: parseGroup},
	SetSchedule:        {Prefix: "set-schedule ", Extension: true, Body: true, lengthAt: 4, MaxLine: MaxTagLine, Done: "SET", Need: Need{MayAdmin, OfTube}, parse: parseSetSchedule},
	GetSchedule:        {Prefix: "get-schedule ", Extension: true, Need: ofSchedule, parse: parseSchedule},
	ListSchedules:      {Prefix: "list-schedules", Extension: true, Need: ofSchedule, parse: parseListSchedules},
	DeleteSchedule:     {Prefix: "delete-schedule ", Extension: true, Done: "DELETED", Need: Need{MayAdmin, Somewhere}, parse: parseSchedule},
	PauseSchedule:      {Prefix: "pause-schedule ", Extension: true, Done: "PAUSED", Need: Need{MayAdmin, Somewhere}, parse: parseSchedule},
	ResumeSchedule:     {Prefix: "resume-schedule ", Extension: true, Done: "RESUMED", Need: Need{MayAdmin, Somewhere}, parse: parseSchedule},
	RunSchedule:        {Prefix: "run-schedule ", Extension: true, Need: Need{MayAdmin, Somewhere}, parse: parseSchedule},
	PreviewSchedule:    {Prefix: "preview-schedule ", Extension: true, MaxLine: MaxTagLine, Long: true, Need: ofSchedule, parse: parsePreview},
	SealBatch:          {Prefix: "seal-batch ", Extension: true, Done: "SEALED", Need: Need{MayPut, OfBatch}, parse: parseBatch},
	ListBatches:        {Prefix: "list-batches", Extension: true, Need: Need{MayList, Somewhere}, parse: parseListBatches},
	ListMembers:        {Prefix: "list-members ", Extension: true, Need: Need{MayList, OfBatch}, parse: parseListMembers},
	CancelBatch:        {Prefix: "cancel-batch ", Extension: true, Need: Need{MayAdmin, OfBatch}, parse: parseBatch},
	HistoryTube:        {Prefix: "history-tube ", Extension: true, MaxLine: twoNames, Need: Need{MayList, OfTube}, parse: parseHistoryTube},
	History:            {Prefix: "history ", Extension: true, Need: Need{MayList, Somewhere}, parse: parseHistory},
}

// statVerbs is in the order of the stats page. That is neither the order of the
// table nor alphabetical, but some scrapers find counters by their line number.
var statVerbs = []Verb{
	Put, Peek, PeekReady, PeekDelayed, PeekBuried, Reserve, ReserveWithTimeout,
	Delete, Release, Use, Watch, Ignore, Bury, Kick, Touch, Stats, StatsJob,
	StatsTube, ListTubes, ListTubeUsed, ListTubesWatched, PauseTube,
}

// byFirst has, for every first byte of a line, the verbs to try, in the order of
// the table.
var byFirst = func() (index [256][]Verb) {
	for v := Unknown + 1; v < NumVerbs; v++ {
		b := table[v].Prefix[0]
		index[b] = append(index[b], v)
	}
	return index
}()

// lookup finds the verb of a line (without its CRLF), Unknown if no prefix matches.
func lookup(line []byte) Verb {
	if len(line) == 0 {
		return Unknown
	}
	for _, v := range byFirst[line[0]] {
		s := &table[v]
		if len(line) < len(s.Prefix) || string(line[:len(s.Prefix)]) != s.Prefix {
			continue
		}
		if !s.Extension || s.endsAt(line) {
			return v
		}
	}
	return Unknown
}

// endsAt reports whether the word of an extension, which line begins with, ends where its prefix
// does, and may be followed by the rest of the line.
func (s *Spec) endsAt(line []byte) bool {
	n := len(s.Prefix)
	return len(line) == n || s.Prefix[n-1] == ' ' || !s.Exact && line[n] == ' '
}

// String returns the word in the protocol, without the space that follows it
// ("reserve-with-timeout"), or "unknown". It does not allocate.
func (v Verb) String() string {
	if v == Unknown || v >= NumVerbs {
		return "unknown"
	}
	return strings.TrimSuffix(table[v].Prefix, " ")
}

// Counter returns the key under which the stats page counts the verb ("cmd-put"). It is
// "" for Unknown and for what is not counted: reserve-job, kick-job, quit, and
// extensions.
func (v Verb) Counter() string { return v.Spec().Counter }

// Spec returns the verb's row of the table, the zero Spec for Unknown.
func (v Verb) Spec() Spec {
	if v >= NumVerbs {
		return Spec{}
	}
	return table[v]
}

// StatVerbs returns the verbs with a counter, in the order of the stats page. The
// slice is shared and must not be changed.
func StatVerbs() []Verb { return statVerbs[:len(statVerbs):len(statVerbs)] }

// Deletes reports whether the verb can delete jobs that its client has not reserved.
func (v Verb) Deletes() bool { return v == Delete || v == DeleteBatch || v == DeleteKey }

// Administers reports whether the verb changes what is not only the business of its client: many jobs, a
// policy, a schedule, or what a group or a tube may do. Operators want to know who did that.
func (v Verb) Administers() bool {
	switch v {
	case GetPolicy, ListPolicies, GetGroup: // they only read
		return false
	case PauseGroup: // which workers may do, too
		return true
	}
	return v.Spec().Need.One == MayAdmin
}
