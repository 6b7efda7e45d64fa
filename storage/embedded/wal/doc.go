// Package wal is a write-ahead log: frames of bytes are appended to segments, and read back in
// order. It knows nothing of jobs.
//
// A durable reply costs a sync of the disk, so nothing should be added to that. A frame is one
// write into a file that already has its full size, and one sync of only that file. Both happen
// on the goroutine that wants them.
//
// Read the files in this order: log.go (Log), frame.go and header.go (the format), append.go,
// sync.go, rotate.go and prepare.go (the next segment), open.go and replay.go (recovery), snapshot.go,
// identity.go, identity_unix.go and directory.go (what somebody else can do to the files).
//
// # Segments
//
// A segment is a file log.N. Its first 64 bytes are its header, of which a disk writes all or
// nothing. The header contains the number of the segment, whether it was used, where the frames
// of the segment before it ended, whether all of that was on the disk by then, the initial size
// of the file, and, once the log is closed, where the frames end. Frames follow, at offsets that
// are multiples of 8:
//
//	length   4 bytes  of the payload
//	checksum 4 bytes  CRC-32C of the payload
//	synced   4 bytes  how much of this segment, in units of 8 bytes, was certainly on
//	                  the disk when the frame was written; all segments before it
//	                  were, too, if this is not 0
//	checksum 4 bytes  CRC-32C of number, offset and the three fields before
//	payload
//
// All numbers are big-endian. The checksum covers number and offset, so the content that a file
// had as another segment is never taken for a frame. The last frame of a segment that was
// followed by another has the length 2^32-1 and no payload.
//
// The next segment is prepared while the current one is filled: from an old file, or from zeros.
// It gets its name only when its header is on the disk.
//
// # Torn or damaged
//
// After a power cut the log can end in the middle of data that was never synced. That is no loss.
// A frame that was synced and cannot be read is damage. Later frames and headers tell the two
// apart: if any of them says that the bad place had been on the disk, Open fails, and names the
// file and the place. Open also fails if a segment is missing, has no header, or is shorter than
// its header says.
//
// A segment that has grown beyond its initial size records that in its header after each sync. So
// no synced frame can be cut off unnoticed, unless the power is cut right after its sync: that
// record gets to the disk with the next frame.
//
// Two cases are not detected. If a file has kept its length and its last frames were overwritten,
// nothing later proves that they existed; only a log that was closed records in its header where
// its frames end. And for data that was never synced (Options.Never), only the length of the file
// proves anything.
//
// # Changes by others
//
// Check reports whether the current segment is still the file under its name. If not, the
// directory was removed, renamed or replaced, and the next start would not find what is written.
// No segment is begun or prepared then.
//
// # Concurrency
//
// Append, AppendPieces and Rotate must be called by one goroutine at a time. Everything else can
// be called from any goroutine. After an error of Append, AppendPieces, Sync or Rotate the log
// can no longer be used, because it is not known what is on the disk.
package wal
