package tube

// Move is a way in which a job changes its state (a state transition). Put is not
// among them, because it creates a job.
type Move uint8

// The moves. The first eleven are commands, but for Seize. The next three happen without a command. Seize,
// Park and Withdraw are for callers inside the process.
const (
	Reserve Move = iota
	ReserveJob
	Seize // a ReserveJob that no limit hinders, and that is no start: for what administrators do with a waiting job
	Delete
	Finish // a Delete by the holder that leaves a result; only for jobs that Keeps reports
	Release
	Bury
	Touch
	SaveCheckpoint // a Touch that also replaces the checkpoint of the job, see CheckpointRef
	KickJob
	Snooze   // a release that is no failure, and counts neither as one nor as a delivery
	Expire   // the TTR of a reservation has run out, or somebody takes the job back from its holder; not the end of a job's lifetime, see expiry.go
	GiveBack // the holder's connection is gone
	Mature   // the delay is over
	Park     // the holder of a lease rejects the job, see Refused; only for LeaseHolder
	Withdraw // takes a put back: a Delete that neither its batches nor its key remember
	NumMoves
)

// String returns the name of the move: the word of the command, where there is one.
// The Lua script of the Redis engine knows moves by these names.
func (m Move) String() string {
	return [NumMoves]string{"reserve", "reserve-job", "seize", "delete", "finish", "release", "bury",
		"touch", "checkpoint", "kick-job", "snooze", "expire", "give-back", "mature", "park", "withdraw"}[m]
}

// Brings reports whether the move reserves a job by its id, so that its body is part of the answer.
func (m Move) Brings() bool { return m == ReserveJob || m == Seize }

// Arrow is one row of the table: Move takes a job from From to To. If there is no
// row for a state, the move is not possible in it: NOT_FOUND.
type Arrow struct {
	Move   Move
	From   State
	Held   bool    // only the holder of the reservation may do it
	To     State   // Delayed means Ready if the delay of the job is 0
	Counts Counter // the counter of the job that grows by one
	Sets   Sets    // the terms that the job takes before it moves
	Ends   Outcome // how the reservation ended, for jobs with rules
}

// Sets says which of the Terms of a move the job takes.
type Sets uint8

const (
	SetsNothing     Sets = iota
	SetsPri              // Terms.Pri
	SetsPriAndDelay      // Terms.Pri and Terms.Delay
)

var arrows = []Arrow{
	{Reserve, Ready, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{ReserveJob, Ready, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{ReserveJob, Delayed, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{ReserveJob, Buried, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{Seize, Ready, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{Seize, Delayed, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{Seize, Buried, false, Reserved, Reserves, SetsNothing, NoOutcome},
	{Delete, Ready, false, Gone, NoCounter, SetsNothing, NoOutcome},
	{Delete, Delayed, false, Gone, NoCounter, SetsNothing, NoOutcome},
	{Delete, Buried, false, Gone, NoCounter, SetsNothing, NoOutcome},
	{Delete, Reserved, true, Gone, NoCounter, SetsNothing, NoOutcome},
	{Finish, Reserved, true, Gone, NoCounter, SetsNothing, NoOutcome},
	{Release, Reserved, true, Delayed, Releases, SetsPriAndDelay, Failure},
	{Snooze, Reserved, true, Delayed, Releases, SetsPriAndDelay, NoOutcome},
	{Bury, Reserved, true, Buried, Buries, SetsPri, NoOutcome},
	{Touch, Reserved, true, Reserved, NoCounter, SetsNothing, NoOutcome},
	{SaveCheckpoint, Reserved, true, Reserved, NoCounter, SetsNothing, NoOutcome},
	{KickJob, Delayed, false, Ready, Kicks, SetsNothing, NoOutcome},
	{KickJob, Buried, false, Ready, Kicks, SetsNothing, NoOutcome},
	{Park, Reserved, true, Buried, NoCounter, SetsNothing, Refused},
	{Expire, Reserved, false, Ready, Timeouts, SetsNothing, Failure},
	{GiveBack, Reserved, true, Ready, NoCounter, SetsNothing, Lost},
	{Mature, Delayed, false, Ready, NoCounter, SetsNothing, NoOutcome},
	{Withdraw, Ready, false, Gone, NoCounter, SetsNothing, NoOutcome},
	{Withdraw, Delayed, false, Gone, NoCounter, SetsNothing, NoOutcome},
	{Withdraw, Buried, false, Gone, NoCounter, SetsNothing, NoOutcome},
}

// Arrows returns a copy of the table, for engines that do not use a Machine.
func Arrows() []Arrow { return append([]Arrow(nil), arrows...) }

// arrowAt is the table by move and state.
var arrowAt = func() (at [NumMoves][numStates]*Arrow) {
	for i := range arrows {
		at[arrows[i].Move][arrows[i].From] = &arrows[i]
	}
	return at
}()

// KickOrder returns in which order a kick tries the states: it moves jobs of the first
// state in which the tube has any, and of no other.
func KickOrder() []State { return []State{Buried, Delayed} }
