package redistest

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// madeBy returns whether one of the processes, on this machine, has the other end of a
// connection. A closed connection belongs to no process.
func madeBy(c net.Conn, pids []int) bool {
	inode := inodeOf(c.RemoteAddr(), c.LocalAddr())
	if inode == 0 {
		return false
	}
	name := fmt.Sprintf("socket:[%d]", inode)
	for _, pid := range append(pids, pids...) { // twice: it may move from one descriptor to another meanwhile
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // none if it has ended
		for _, file := range files {
			if to, _ := os.Readlink(file); to == name {
				return true
			}
		}
	}
	return false
}

// inodeOf asks the kernel for the socket with these IPv4 addresses on its own and on the other
// side; 0 if there is none. /proc/net/tcp has the same information, but reading it is so slow
// that it would delay the traffic of the proxy.
func inodeOf(own, other net.Addr) uint32 {
	from, ok := own.(*net.TCPAddr)
	to, are := other.(*net.TCPAddr)
	if !ok || !are || from.IP.To4() == nil || to.IP.To4() == nil {
		return 0
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	const header, inode = unix.SizeofNlMsghdr, 68 // the inode's place in struct inet_diag_msg
	if err != nil || n < header+inode+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return 0
	}
	return binary.NativeEndian.Uint32(answer[header+inode:])
}

// diagRequest is struct nlmsghdr and struct inet_diag_req_v2.
func diagRequest(from, to *net.TCPAddr) []byte {
	const anyState, anyCookie = 1<<32 - 1, 1<<64 - 1
	b := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+56)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // number and sender
	b = append(b, unix.AF_INET, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, anyState)
	b = binary.BigEndian.AppendUint16(b, uint16(from.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(to.Port))
	for _, ip := range []net.IP{from.IP.To4(), to.IP.To4()} {
		b = append(append(b, ip...), make([]byte, 12)...)
	}
	b = append(b, make([]byte, 4)...) // any interface
	return binary.NativeEndian.AppendUint64(b, anyCookie)
}
