package access

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 16 << 20

// ReadFile reads a file that the operator has named. It refuses all but regular files:
// reading a named pipe could block for ever.
func ReadFile(path string) ([]byte, error) {
	text, _, err := readRegular(path)
	return text, err
}

// ReadSecrets is ReadFile for a file with secrets, or hashes of them. It logs a warning if
// users of the machine who are not in the file's group can read or change it.
func ReadSecrets(path string, log *slog.Logger) ([]byte, error) {
	text, info, err := readRegular(path)
	if err != nil {
		return text, err
	}
	if can := [...]string{2: "change", 4: "read", 6: "read and change"}[info.Mode().Perm()&0o006]; can != "" {
		log.Warn("every user of this machine can "+can+" a file with secrets", "file", path, "mode", info.Mode().Perm())
	}
	return text, err
}

func readRegular(path string) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a named pipe could block for ever
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return text, info, err
}
