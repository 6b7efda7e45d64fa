package queue

import "syscall"

// uname returns what the kernel says about the machine, as beanstalkd reports it.
func uname() Machine {
	var u syscall.Utsname
	syscall.Uname(&u) // cannot fail with this argument
	return Machine{cString(u.Nodename[:]), cString(u.Version[:]), cString(u.Machine[:])}
}

// cString returns the text before the first NUL. Whether C's char is signed depends on the
// platform.
func cString[char int8 | uint8](field []char) string {
	text := make([]byte, 0, len(field))
	for _, c := range field {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}
