package access

import (
	"slices"
	"testing"
)

// TestBatchOwners: users who can put into the same tubes share their batches, users who can put everywhere have those without an
// owner, and the rights on the batch of another user are those on all tubes in which that user can have jobs.
func TestBatchOwners(t *testing.T) {
	t.Parallel()
	a := open(t, `users:
- {name: b, rights: [{tubes: ["b-*", mails], may: [put]}, {tubes: ["b-*"], may: [read]}]}
- {name: twin, rights: [{tubes: [mails], may: [put, read]}, {tubes: ["b-*"], may: [put, admin]}]}
- {name: a~1, rights: [{tubes: ["a?"], may: [put, admin]}]}
- {name: wide, rights: [{tubes: ["a?", "b-*", mails, x], may: [put, work]}, {tubes: ["b-*"], may: [admin]}]}
- {name: reader, rights: [{tubes: ["b-?", mails], may: [read]}]}
- {name: sees, rights: [{tubes: ["b*", mails], may: [read]}]}
- {name: lister, rights: [{tubes: ["b*", mails], may: [list]}]}
- {name: part, rights: [{tubes: ["*"], may: [read]}, {tubes: [x], may: [put]}]}
- {name: root, rights: [{tubes: ["*"], may: [put, read, work, admin]}]}
`)
	users := a.file.Load().users
	for _, c := range []struct {
		user, name, whole string
		has               Right
	}{
		{"b", "x", "b~x", Put | reads}, {"b", "b~x", "b~x", Put | reads}, {"b", "", "", Nothing}, {"b", "a~1~x", "a~1~x", Nothing}, {"b", "no~x", "no~x", Nothing}, {"b", "~x", "x", Nothing},
		{"twin", "x", "b~x", Put | reads}, {"a~1", "x", "a~1~x", Put | Admin}, {"a~1", "a~x", "a~x", Nothing}, {"wide", "x", "wide~x", Put | Work}, {"wide", "b~x", "b~x", Put | Work},
		{"wide", "a~1~x", "a~1~x", Put | Work}, {"b", "wide~x", "wide~x", Nothing}, {"reader", "b~x", "b~x", Nothing}, {"sees", "b~x", "b~x", reads}, {"sees", "x", "x", Nothing}, {"lister", "b~x", "b~x", List},
		{"part", "x", "part~x", Put | reads}, {"part", "~x", "x", reads}, {"part", "~", "~", reads},
		{"root", "x", "x", All}, {"root", "~x", "~x", All}, {"root", "b~x", "b~x", All}, {"anonymous", "x", "x", Nothing},
	} {
		u := users[c.user]
		if c.user == anonymous {
			u = a.Anonymous()
		}
		whole := u.WholeBatch(c.name)
		if whole != c.whole || u.OnBatch(whole) != c.has {
			t.Errorf("%s calls a batch %q: it is %q with %v, want %q with %v", c.user, c.name, whole, u.OnBatch(whole), c.whole, c.has)
		}
	}
	if of, all := users["sees"].ReadableBatches(); all || !slices.Equal(of, []string{"b~"}) {
		t.Errorf("%v %v", of, all)
	}
	if of, all := users["reader"].ReadableBatches(); all || len(of) != 0 {
		t.Errorf("%v %v", of, all)
	}
	if _, all := users["root"].ReadableBatches(); !all {
		t.Error("root does not see all")
	}
	if b, twin := users["b"], users["wide"]; !b.MayJoin("b~x", "b~y") || b.MayJoin("", "wide~x") || !twin.MayJoin("b~x", "") || twin.MayJoin("", "b~x") {
		t.Error("the rights to join and to wait are wrong")
	}
}
