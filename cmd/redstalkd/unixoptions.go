package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"redstalk/storage/redact"
)

// unixOptions are the options after the path of a unix socket: ?mode=0660&user=NAME&group=NAME.
type unixOptions struct {
	mode        os.FileMode // of the file, if hasMode
	hasMode     bool
	user, group string // names or numbers; "": as they are
}

// parseUnix separates a path from its options. A ? that no option follows is part of the path.
func parseUnix(path string) (string, unixOptions, error) {
	var o unixOptions
	at := strings.LastIndexByte(path, '?')
	if at < 0 || !isUnixQuery(path[at+1:]) {
		return path, o, nil
	}
	values, err := url.ParseQuery(path[at+1:])
	if err != nil {
		return "", o, errors.New("what follows the ? of the path is not like ?mode=0660&group=NAME")
	}
	for key, all := range values {
		if len(all) != 1 || all[0] == "" {
			return "", o, fmt.Errorf("the path of a unix socket has %s with no value, or with several", key)
		}
	}
	o.user, o.group = values.Get("user"), values.Get("group")
	if text := values.Get("mode"); text != "" {
		mode, err := strconv.ParseUint(text, 8, 32)
		if err != nil || mode > 0o777 {
			return "", o, fmt.Errorf("%q is not a mode such as 0660", text)
		}
		o.mode, o.hasMode = os.FileMode(mode), true
	}
	return path[:at], o, nil
}

func isUnixQuery(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		key, _, found := strings.Cut(pair, "=")
		if !found || key != "mode" && key != "user" && key != "group" {
			return false
		}
	}
	return true
}

// close is for net.ListenConfig.Control: until apply has set the mode, only this user can connect.
// On systems where that has no effect, the umask decides.
func (o *unixOptions) close(_, _ string, conn syscall.RawConn) error {
	if o.hasMode {
		conn.Control(func(fd uintptr) { syscall.Fchmod(int(fd), 0o600) })
	}
	return nil
}

// apply sets the owners of the file and then its mode.
func (o *unixOptions) apply(path string) error {
	uid, gid := -1, -1
	var err error
	if o.user != "" {
		uid, err = idOf(o.user, func(name string) (string, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		})
	}
	if err == nil && o.group != "" {
		gid, err = idOf(o.group, func(name string) (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		})
	}
	if err == nil && uid+gid > -2 {
		err = os.Lchown(path, uid, gid)
	}
	if err == nil && o.hasMode {
		err = os.Chmod(path, o.mode)
	}
	if err != nil {
		return fmt.Errorf("the owner and mode of the unix socket: %w", err)
	}
	return nil
}

// idOf returns the id that name is, or that lookup finds for it.
func idOf(name string, lookup func(string) (string, error)) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	text, err := lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

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
