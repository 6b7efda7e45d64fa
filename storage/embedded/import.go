package embedded

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Jobs of another server, see storage.Importer. The ids of an import are set aside when it
// begins, so its jobs are no new ones to a window: they are noted one by one.

// importMark is how far an import is: what is added to the numbers that its jobs had, and how
// many of them are here.
type importMark struct{ offset, done uint64 }

// importMarkSize is the length of an encoded importMark in bytes.
const importMarkSize = 16

// encodeImportMark appends an import mark: offset and done in 8 bytes each.
func encodeImportMark(to []byte, m importMark) []byte {
	to = binary.BigEndian.AppendUint64(to, m.offset)
	return binary.BigEndian.AppendUint64(to, m.done)
}

func decodeImportMark(b []byte) importMark {
	return importMark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Parts implements storage.Importer.
func (e *Engine) Parts() int { return 1 }

// PartOf implements storage.Importer.
func (e *Engine) PartOf(string) int { return 0 }

// IDOf implements storage.Importer.
func (e *Engine) IDOf(_ int, number uint64) uint64 { return number }

// beginImport carries out a BeginImport.
func (e *Engine) beginImport(op *storage.Op) {
	imported := op.Args.Import
	mark, begun := e.imports[imported.Source]
	if !begun {
		mark.offset = max(e.machine.LastID(), imported.Least)
	}
	if !begun && imported.Largest > 0 {
		e.machine.SkipTo(mark.offset + imported.Largest)
		e.noteImport(imported.Source, mark)
	}
	answerImport(op, mark)
}

func answerImport(op *storage.Op, m importMark) {
	op.Answer.Result = &storage.Result{Import: &storage.ImportState{Offset: m.offset, Done: m.done}}
}

// noteImport notes how far an import is.
func (e *Engine) noteImport(source string, m importMark) {
	e.imports[source] = m
	if e.journal != nil {
		e.journal.importMarked(source, m)
	}
}

// importJobs carries out an ImportJobs. It returns false if it has to wait for room.
func (e *Engine) importJobs(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	imported := op.Args.Import
	mark, begun := e.imports[imported.Source]
	if !begun || mark.done != imported.From {
		answerImport(op, mark)
		return true
	}
	if e.journal != nil {
		if p.needsRoom = !p.forced && e.journal.crowded(); p.needsRoom {
			return false
		}
		size := 0
		for i := range imported.Jobs {
			size += len(imported.Jobs[i].Body)
		}
		if !e.journal.guard.room(size) {
			op.Answer.Err = storage.ErrNoSpace
			return true
		}
	}
	for i := range imported.Jobs {
		e.machine.Adopt(now, imported.Jobs[i].Record, imported.Jobs[i].Body)
	}
	e.spend(len(imported.Jobs))
	mark.done += uint64(len(imported.Jobs))
	e.noteImport(imported.Source, mark)
	answerImport(op, mark)
	return true
}

// importMarked is told of an import like the journal of other changes. It comes behind the jobs, so
// that the log never has it without them.
func (j *journal) importMarked(source string, m importMark) {
	g, last := j.filling, j.machine.LastID()
	start := len(g.frame)
	g.frame = encodeImportMark(appendTubeEntry(g.frame, importEntry, source), m)
	g.frame = binary.BigEndian.AppendUint64(g.frame, last)
	g.size += len(g.frame) - start
	g.mustSync = true
	j.window.imports[source] = m
	if m.done == 0 {
		j.window.skipTo(last)
	}
	j.count()
}

// writeImports writes how far imports are.
func writeImports(in *ingest, imports map[string]importMark) (err error) {
	for _, source := range slices.Sorted(maps.Keys(imports)) {
		key := append([]byte{importKey}, source...)
		err = errors.Join(err, in.set(others, key, encodeImportMark(nil, imports[source])))
	}
	return err
}
