package access

import (
	"maps"
	"slices"
	"strings"
)

// With a file of users each batch of jobs belongs to the users who may put into exactly the same tubes. Its whole name, which
// is all that the store knows, is OWNER~NAME: OWNER is the first of these users in the file. So nobody else can take the
// name before. Batches whose names have no owner belong to the users who may put into all tubes.

// setBatchOwners sets whose batches each of the users has, who are in the order of the file.
func setBatchOwners(users []*User) {
	owners, first := make(map[string][]string), make(map[string]string)
	for _, u := range users {
		u.batchOwners = owners
		globs := u.putGlobs()
		if len(globs) == 0 || u.everywhere&Put != 0 {
			continue
		}
		tubes := strings.Join(globs, " ")
		if first[tubes] == "" {
			first[tubes], owners[u.name] = u.name, globs
		}
		u.batchOwner = first[tubes]
	}
}

// putGlobs returns the tubes into which the user may put, each once.
func (u *User) putGlobs() (globs []string) {
	for _, r := range u.rules {
		if r.may&Put != 0 {
			globs = append(globs, r.globs...)
		}
	}
	slices.Sort(globs)
	return slices.Compact(globs)
}

// WholeBatch returns the whole name of the batch that the user calls name: one of the user's own, unless name has an owner,
// or begins with ~ and has none. "" stays "".
func (u *User) WholeBatch(name string) string {
	switch i := strings.LastIndexByte(name, '~'); {
	case name == "" || name == "~" || u.batchOwner == "" || i > 0:
		return name
	case i == 0:
		return name[1:]
	}
	return u.batchOwner + "~" + name
}

// OnBatch returns the user's rights on a batch with a whole name, whether that exists or not: those on all tubes in which
// its owner can have put jobs. A user may also see the own ones with List on any tube.
func (u *User) OnBatch(name string) Right {
	owner, _ := cutOwner(name)
	globs := u.batchOwners[owner]
	if len(globs) == 0 {
		return u.everywhere
	}
	r := All
	for _, glob := range globs {
		r &= u.On(glob)
	}
	if owner == u.batchOwner {
		r |= u.anywhere & (List | Read)
	}
	return r
}

// MayJoin reports whether the user may put a member of a batch, and a job that runs after another one. Both have
// whole names, or are "". When a job runs says what has become of the batch before it, so waiting needs List.
func (u *User) MayJoin(batch, after string) bool {
	return (batch == "" || u.OnBatch(batch)&Put != 0) && (after == "" || u.OnBatch(after)&List != 0)
}

// ReadableBatches returns how the whole names of the batches begin that the user may see, in their order. all says that
// these are all batches.
func (u *User) ReadableBatches() (prefixes []string, all bool) {
	if u.everywhere&List != 0 {
		return nil, true
	}
	for owner := range maps.Keys(u.batchOwners) {
		if u.OnBatch(owner+"~")&List != 0 {
			prefixes = append(prefixes, owner+"~")
		}
	}
	slices.Sort(prefixes)
	return prefixes, false
}

// cutOwner splits the whole name of a batch. owner is "" if it has none.
func cutOwner(name string) (owner, rest string) {
	i := strings.LastIndexByte(name, '~')
	return name[:max(i, 0)], name[i+1:]
}
