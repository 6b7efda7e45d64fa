package tube

// Move names a way in which one job changes its state. Put is not among them:
// it makes a job rather than moving one.
type Move uint8

// The moves. The first seven are commands; the last three happen by
// themselves.
const (
	Reserve Move = iota
	ReserveJob
	Delete
	Release
	Bury
	Touch
	KickJob
	Expire   // the TTR of a reservation has run out
	GiveBack // the holder's connection is gone
	Mature   // the delay is over
	NumMoves
)

// String returns the name of the move as the Redis engine's Lua knows it.
func (m Move) String() string {
	return [NumMoves]string{"reserve", "reserve-job", "delete", "release", "bury",
		"touch", "kick-job", "expire", "give-back", "mature"}[m]
}

// Arrow is one row of the life of a job: Move takes a job from From to To. If
// there is no row for a state, the move does not apply: NOT_FOUND.
type Arrow struct {
	Move   Move
	From   State
	Held   bool    // only the holder of the reservation may do it
	To     State   // Delayed means Ready when the delay is 0
	Counts Counter // the counter that grows by one
}

var arrows = []Arrow{
	{Reserve, Ready, false, Reserved, Reserves},
	{ReserveJob, Ready, false, Reserved, Reserves},
	{ReserveJob, Delayed, false, Reserved, Reserves},
	{ReserveJob, Buried, false, Reserved, Reserves},
	{Delete, Ready, false, Gone, NoCounter},
	{Delete, Delayed, false, Gone, NoCounter},
	{Delete, Buried, false, Gone, NoCounter},
	{Delete, Reserved, true, Gone, NoCounter},
	{Release, Reserved, true, Delayed, Releases},
	{Bury, Reserved, true, Buried, Buries},
	{Touch, Reserved, true, Reserved, NoCounter},
	{KickJob, Delayed, false, Ready, Kicks},
	{KickJob, Buried, false, Ready, Kicks},
	{Expire, Reserved, false, Ready, Timeouts},
	{GiveBack, Reserved, true, Ready, NoCounter},
	{Mature, Delayed, false, Ready, NoCounter},
}

// Arrows returns a copy of the table, for whoever has to walk it elsewhere.
func Arrows() []Arrow { return append([]Arrow(nil), arrows...) }

// arrowAt is the table by move and state.
var arrowAt = func() (at [NumMoves][numStates]*Arrow) {
	for i := range arrows {
		at[arrows[i].Move][arrows[i].From] = &arrows[i]
	}
	return at
}()
