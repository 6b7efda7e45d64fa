package access

import "redstalk/protocol"

// The rights, and what operations need. The table of verbs has what each command needs.
type (
	Right = protocol.Right
	Where = protocol.Where
	Need  = protocol.Need
)

const (
	Put   = protocol.MayPut
	Work  = protocol.MayWork
	List  = protocol.MayList
	Read  = protocol.MayRead
	Admin = protocol.MayAdmin

	// Nothing is the empty set, All the full one.
	Nothing Right = 0
	All           = Put | Work | List | Read | Admin
)

const (
	Free       = protocol.Free
	OfTube     = protocol.OfTube
	OfJob      = protocol.OfJob
	OfTubes    = protocol.OfTubes
	OfBatch    = protocol.OfBatch
	Somewhere  = protocol.Somewhere
	Everywhere = protocol.Everywhere
)

// needs is what all operations of all listeners need, by their word in the beanstalk protocol.
// HTTP has four more.
var needs = func() map[string]Need {
	all := map[string]Need{
		"backup":  {One: Admin, Where: Everywhere},
		"batch":   {One: Put, Where: OfTube},
		"events":  {One: List, Where: OfTubes},
		"metrics": {One: List, Where: Everywhere},
	}
	for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
		all[v.String()] = v.Spec().Need
	}
	return all
}()

// NeedOf returns what an operation needs. If the table does not have it, known is false, and
// it needs Admin on every tube.
func NeedOf(operation string) (n Need, known bool) {
	if n = needs[operation]; n == (Need{}) {
		return Need{One: Admin, Where: Everywhere}, false
	}
	return n, true
}
