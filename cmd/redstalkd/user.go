package main

import (
	"errors"
	"os/user"
	"strconv"
	"syscall"

	"redstalk/storage/redact"
)

// become changes the process to the user, with their primary group and no
// other groups. It cannot be undone.
func become(name string) error {
	uid, gid, err := lookupUser(name, user.Lookup)
	if err != nil {
		return err
	}
	if uid == syscall.Geteuid() && gid == syscall.Getegid() && uid != 0 {
		return nil // already: without privileges there is nothing to drop
	}
	if err := syscall.Setgroups([]int{gid}); err != nil {
		return failure(exitBecome, "becoming the user %q: dropping other groups: %w", name, err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return failure(exitBecome, "becoming the user %q: setting the group %d: %w", name, gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return failure(exitBecome, "becoming the user %q: setting the user id %d: %w", name, uid, err)
	}
	return nil
}

// lookupUser returns the ids of the user and of their primary group.
func lookupUser(name string, lookup func(string) (*user.User, error)) (uid, gid int, err error) {
	u, err := lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return 0, 0, failure(exitNoUser, "there is no user %q", redact.URL(name))
	}
	if err == nil {
		uid, err = strconv.Atoi(u.Uid)
	}
	if err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, failure(exitUserLookup, "looking up the user %q: %w", redact.URL(name), redact.Error(name, err))
	}
	return uid, gid, nil
}
