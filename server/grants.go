package server

import "redstalk/server/access"

// grant says that a job is in a tube on which the client has these rights, and perhaps others.
type grant struct {
	id     uint64
	rights access.Right
}

// numGrants is for how many jobs a session caches grants. The tubes of further jobs are looked up.
const numGrants = 256

// noteReserved caches that a job was reserved, and so is in a tube on which the principal may work. It does
// nothing on a nil principal.
func (p *principal) noteReserved(id uint64) {
	if p != nil && p.user.Everywhere()&access.Work == 0 {
		p.grant(id, access.Work)
	}
}

func (p *principal) grant(id uint64, rights access.Right) {
	if p.grants == nil {
		p.grants = make([]grant, numGrants)
	}
	p.grants[id%numGrants] = grant{id, rights}
}

// rightsToSee returns the client's rights on the tube of a job that it may read. If a redaction applies, the tube was just looked up;
// else it sees all, whatever the rights.
func (s *session) rightsToSee(id uint64) access.Right {
	p := s.principal
	if p == nil || p.user.SeesAllValues() {
		return access.All
	}
	if g := p.grants[id%numGrants]; g.id == id {
		return g.rights
	}
	return access.Nothing
}

// isGranted reports whether the principal is known to have the rights that a command needs on the job.
func (p *principal) isGranted(n access.Need, id uint64) bool {
	if n.Met(p.user.Everywhere()) {
		return true
	}
	if p.grants == nil {
		return false
	}
	g := p.grants[id%numGrants]
	return g.id == id && n.Met(g.rights)
}
