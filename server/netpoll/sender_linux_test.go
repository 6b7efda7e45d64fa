package netpoll

import (
	"bytes"
	"syscall"
	"testing"
)

// socketPair returns both ends of a connection, non-blocking.
func socketPair(t *testing.T) (server, client int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fds[0]); syscall.Close(fds[1]) })
	return fds[0], fds[1]
}

func readNow(t *testing.T, fd int) string {
	t.Helper()
	var got [100]byte
	n, err := syscall.Read(fd, got[:])
	if err != nil {
		return err.Error()
	}
	return string(got[:n])
}

// TestSender: each socket gets its bytes, and Write returns how many each has accepted.
func TestSender(t *testing.T) {
	s, err := NewSender()
	if err != nil {
		t.Skip("asynchronous I/O does not work: ", err)
	}
	defer s.Close()
	const rounds = 4 // so that the kernel reuses its memory for results
	for range rounds {
		var clients []int
		for i := range MaxWrites {
			server, client := socketPair(t)
			clients = append(clients, client)
			if i%2 == 0 {
				s.Add(server, []byte{'a', byte(i)})
			} else {
				s.AddVec(server, []byte("b"), nil, []byte{byte(i)})
			}
		}
		if !s.Full() {
			t.Fatal("there is room")
		}
		for i, n := range s.Write() {
			if want := string([]byte{'a' + byte(i%2), byte(i)}); n != 2 || readNow(t, clients[i]) != want {
				t.Fatalf("socket %d accepted %d bytes, want %q", i, n, want)
			}
		}
	}
	if s.Full() || len(s.Write()) != 0 {
		t.Error("something is left")
	}
}

// TestSenderFails: a socket without room accepts a part or nothing, one that the peer has closed
// accepts nothing, and the other sockets get their bytes.
func TestSenderFails(t *testing.T) {
	s, err := NewSender()
	if err != nil {
		t.Skip("asynchronous I/O does not work: ", err)
	}
	defer s.Close()
	small, _ := socketPair(t)
	gone, goneClient := socketPair(t)
	good, client := socketPair(t)
	syscall.Shutdown(goneClient, syscall.SHUT_RDWR)
	large := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 3 {
		s.Add(small, large)
		s.Add(gone, []byte("a"))
		s.Add(good, []byte("b"))
		s.Add(-1, []byte("c")) // the kernel accepts none from here on
		s.Add(good, []byte("d"))
		n := s.Write()
		if n[0] >= len(large) || i == 0 && n[0] == 0 || n[1] != 0 || n[2] != 1 || n[3] != 0 || n[4] != 0 {
			t.Errorf("written: %d", n)
		}
	}
	if got := readNow(t, client); got != "bbb" {
		t.Errorf("the client got %q", got)
	}
}
