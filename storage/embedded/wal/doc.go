// Package wal is a write-ahead log: frames of bytes, appended to segments, and
// read back in their order. It knows nothing of jobs.
//
// It exists because a sync of the disk is what a durable reply costs, and so
// nothing may stand beside it: a frame is one write into a file that has its
// full size already, and one sync of just that file, both on the goroutine that
// wants them.
//
// # Segments
//
// A segment is a file log.N. Its first 64 bytes, of which a disk writes all or
// none, say which number it has and whether it was used, where the one before it
// ended, whether all of that was on the disk by then, how long the file was
// made, and, once the log is closed, where it ends itself. Frames follow, at offsets that are multiples of
// 8:
//
//	length   4 bytes  of the payload
//	checksum 4 bytes  CRC-32C of the payload
//	synced   4 bytes  how much of this segment, in units of 8 bytes, was on
//	                  the disk for certain when the frame was written, and all
//	                  segments before it with that
//	checksum 4 bytes  CRC-32C of number, offset and the three fields before
//	payload
//
// All numbers are big-endian. Number and offset are part of the checksum, so
// what an earlier life of the file has left behind is never taken for a frame.
// The next segment is prepared while one is filled: of an old one, or of zeros.
// It gets its name only when its header is on the disk. The last frame of a
// segment that was followed by another has the length 2^32-1 and no payload.
//
// # Torn or damaged
//
// After a power cut the log may end in the middle of what was never synced, and
// that is no loss. A frame that was synced and cannot be read is one. The two
// are told apart by what later frames and headers say: if any says that the bad
// place had been on the disk, Open fails and names the file and the place. The
// same goes for a segment that is missing or has no header, and for one that is
// shorter than its header says: a file gets its name only when all of it is on
// the disk. A segment that has grown beyond the size it was made with says so in
// its header after each sync. So no frame that was synced can be cut off without
// being missed, unless the power is cut right after its sync as well: that note
// gets to the disk with the next frame. Where a file has kept its length and the
// last frames of all were overwritten, no later ones vouch for them, but for
// those of a log that was closed in peace, whose last header does. And what was
// never synced (Options.Never) is vouched for by the length of its file alone.
//
// # Somebody else
//
// Check tells whether the current segment is still the file under its name. If
// not, the directory was removed, renamed or replaced, and what is written would
// not be found again. No segment is begun, nor prepared, if that is so.
//
// # Who calls
//
// Append and Rotate belong to one goroutine at a time, everything else to any.
// After an error of Append, Sync or Rotate the log is of no use any more: what
// is on the disk is not known.
package wal
