package queue

import "syscall"

// uname tells what the kernel says of the machine, as beanstalkd does.
func uname() Machine {
	var u syscall.Utsname
	syscall.Uname(&u) // cannot fail with this argument
	return Machine{cString(u.Nodename[:]), cString(u.Version[:]), cString(u.Machine[:])}
}

// cString is the text before the first NUL. Whether C's char is signed
// depends on the platform.
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
