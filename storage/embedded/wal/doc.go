// Package wal is a write-ahead log: frames of bytes are appended to segments, and read back
// in their order. It knows nothing of jobs.
//
// A durable reply costs a sync of the disk, so nothing may be added to that. A frame is one
// write into a file that has its full size already, and one sync of only that file. Both
// happen on the goroutine that wants them.
//
// # Segments
//
// A segment is a file log.N. Its first 64 bytes are its header, of which a disk writes all
// or nothing. The header says which number the segment has, whether it was used, where the
// frames of the segment before it ended, whether all of that was on the disk by then, how
// long the file was made, and, once the log is closed, where the frames end. Frames follow,
// at offsets that are multiples of 8:
//
//	length   4 bytes  of the payload
//	checksum 4 bytes  CRC-32C of the payload
//	synced   4 bytes  how much of this segment, in units of 8 bytes, was certainly on
//	                  the disk when the frame was written; all segments before it
//	                  were, too, if this is not 0
//	checksum 4 bytes  CRC-32C of number, offset and the three fields before
//	payload
//
// All numbers are big-endian. The checksum covers number and offset, so what the file held
// when it was another segment is never taken for a frame. The last frame of a segment that
// was followed by another has the length 2^32-1 and no payload.
//
// The next segment is prepared while the current one is filled: of an old file, or of zeros.
// It gets its name only when its header is on the disk.
//
// # Torn or damaged
//
// After a power cut the log may end in the middle of what was never synced. That is no loss.
// A frame that was synced and cannot be read is damage. Later frames and headers tell the
// two apart: if any of them says that the bad place had been on the disk, Open fails, and
// names the file and the place. Open also fails if a segment is missing, if it has no
// header, or if it is shorter than its header says.
//
// A segment that has grown beyond the size it was made with says so in its header after each
// sync. So no synced frame can be cut off without being missed, unless the power is cut
// right after its sync as well: that note gets to the disk with the next frame.
//
// Two cases are not found out. If a file has kept its length and its last frames were
// overwritten, nothing later vouches for them; only a log that was closed says in its header
// where its frames end. And what was never synced (Options.Never) is vouched for by the
// length of its file alone.
//
// # Somebody else
//
// Check reports whether the current segment is still the file under its name. If not, the
// directory was removed, renamed or replaced, and the next start would not find what is
// written. No segment is begun or prepared then.
//
// # Who calls
//
// Append, AppendPieces and Rotate belong to one goroutine at a time. Everything else may be
// called from any. After an error of Append, AppendPieces, Sync or Rotate the log is of no
// use any more, because it is not known what is on the disk.
package wal
