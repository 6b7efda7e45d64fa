package access

// Where says on which tubes an operation needs a right.
type Where uint8

const (
	Free       Where = iota // on none: it concerns only the caller
	OfTube                  // on the tube that it names, or that the connection uses
	OfJob                   // on the tube of the job that it names by its id
	OfTubes                 // on at least one of several tubes; the others are left out
	Somewhere               // on any tube
	Everywhere              // on every tube: the right must be given for "*"
)

// Need is what an operation needs.
type Need struct {
	One   Right // any one of these is enough
	Where Where
}

// Met reports whether a set of rights satisfies the need.
func (n Need) Met(has Right) bool { return n.Where == Free || has&n.One != 0 }

// needs is the table of all operations of all listeners, by their word in the beanstalk
// protocol, or the name that the HTTP API gives them. If a user has no right at all on a
// tube, its jobs are not found; if the user has other rights than the one needed, permission
// is denied.
var needs = map[string]Need{
	"put":     {Put, OfTube}, // and on the tube of its tag dead
	"batch":   {Put, OfTube},
	"use":     {All, OfTube},
	"watch":   {Work, OfTube},
	"ignore":  {Nothing, Free},
	"quit":    {Nothing, Free},
	"auth":    {Nothing, Free},
	"reserve": {Work, OfTubes}, "reserve-with-timeout": {Work, OfTubes}, "reserve-batch": {Work, OfTubes}, "reserve-lease": {Work, OfTubes},
	"reserve-job": {Work, OfJob},
	"delete":      {Work, OfJob}, "delete-lease": {Work, OfJob}, "delete-batch": {Work, OfJob}, "delete-key": {Work, OfTube},
	"release": {Work, OfJob}, "release-lease": {Work, OfJob},
	"bury": {Work, OfJob}, "bury-lease": {Work, OfJob},
	"touch": {Work, OfJob}, "touch-lease": {Work, OfJob},

	"peek":       {Read, OfJob},
	"peek-ready": {Read, OfTube}, "peek-delayed": {Read, OfTube}, "peek-buried": {Read, OfTube},
	"find": {Read, OfTube}, "list-jobs": {Read, OfTube},
	"stats-job": {Read, OfJob}, "stats-tube": {Read, OfTube}, "stats": {Read, Somewhere},
	"list-tubes":     {Read, OfTubes},
	"list-tube-used": {Nothing, Free}, "list-tubes-watched": {Nothing, Free}, "capabilities": {Nothing, Free},
	"events":  {Read, OfTubes},
	"metrics": {Read, Everywhere},

	"kick": {Admin, OfTube}, "kick-job": {Admin, OfJob},
	"reschedule": {Admin, OfJob}, "set-priority": {Admin, OfJob},
	"pause-tube": {Admin, OfTube}, "flush-tube": {Admin, OfTube}, "move-jobs": {Admin, OfTube}, // and on the other tube, and MayRedirect
	"set-policy": {Admin, OfTube}, // with push or dead also MayRedirect
	"get-policy": {Admin, OfTube}, "list-policies": {Admin, OfTubes},
	"drain": {Admin, Everywhere}, "undrain": {Admin, Everywhere},
}

// NeedOf returns what an operation needs. If the table does not have it, known is false, and
// it needs Admin on every tube.
func NeedOf(operation string) (n Need, known bool) {
	if n, known = needs[operation]; !known {
		n = Need{Admin, Everywhere}
	}
	return n, known
}
