package aio

import (
	"bytes"
	"syscall"
	"testing"
)

// pair is two ends of a connection. Neither blocks.
func pair(t *testing.T) (ours, theirs int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fds[0]); syscall.Close(fds[1]) })
	return fds[0], fds[1]
}

func read(t *testing.T, fd int) string {
	t.Helper()
	var got [100]byte
	n, err := syscall.Read(fd, got[:])
	if err != nil {
		return err.Error()
	}
	return string(got[:n])
}

// TestWrite: each socket gets what is for it, and of each it is said how much it took.
func TestWrite(t *testing.T) {
	s, err := NewSender()
	if err != nil {
		t.Skip("no asynchronous I/O here: ", err)
	}
	defer s.Close()
	const rounds = 4 // so that what the kernel has for results is used again
	for range rounds {
		var theirs []int
		for i := range MaxWrites {
			ours, its := pair(t)
			theirs = append(theirs, its)
			if i%2 == 0 {
				s.Add(ours, []byte{'a', byte(i)})
			} else {
				s.AddVec(ours, []byte("b"), nil, []byte{byte(i)})
			}
		}
		if !s.Full() {
			t.Fatal("there is room")
		}
		for i, n := range s.Write() {
			if want := string([]byte{'a' + byte(i%2), byte(i)}); n != 2 || read(t, theirs[i]) != want {
				t.Fatalf("socket %d took %d bytes, want %q", i, n, want)
			}
		}
	}
	if s.Full() || len(s.Write()) != 0 {
		t.Error("something is left")
	}
}

// TestWriteFails: a socket without room takes a part or nothing, one that is closed at the other
// end nothing, and the others get theirs.
func TestWriteFails(t *testing.T) {
	s, err := NewSender()
	if err != nil {
		t.Skip("no asynchronous I/O here: ", err)
	}
	defer s.Close()
	small, _ := pair(t)
	gone, itsEnd := pair(t)
	good, theirs := pair(t)
	syscall.Shutdown(itsEnd, syscall.SHUT_RDWR)
	much := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 3 {
		s.Add(small, much)
		s.Add(gone, []byte("a"))
		s.Add(good, []byte("b"))
		s.Add(-1, []byte("c")) // the kernel takes none from here on
		s.Add(good, []byte("d"))
		n := s.Write()
		if n[0] >= len(much) || i == 0 && n[0] == 0 || n[1] != 0 || n[2] != 1 || n[3] != 0 || n[4] != 0 {
			t.Errorf("written: %d", n)
		}
	}
	if got := read(t, theirs); got != "bbb" {
		t.Errorf("it has got %q", got)
	}
}
