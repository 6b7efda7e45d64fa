package embedded

import (
	"encoding/binary"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Jobs of another server, see storage.Importer. Their ids are reserved when the import begins,
// so for a window they are not new jobs: each is recorded on its own.

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
		mark.Offset = max(e.machine.LastID(), imported.Least)
	}
	if !begun && imported.Largest > 0 {
		e.machine.SkipTo(mark.Offset + imported.Largest)
		e.setImportMark(imported.Source, mark)
	}
	answerImport(op, mark)
}

func answerImport(op *storage.Op, m tables.ImportMark) {
	op.Answer.Result = &storage.Result{Import: &storage.ImportState{Offset: m.Offset, Done: m.Done}}
}

// setImportMark records how far an import is.
func (e *Engine) setImportMark(source string, m tables.ImportMark) {
	e.imports[source] = m
	if e.journal != nil {
		e.journal.importMarked(source, m)
	}
}

// importJobs carries out an ImportJobs. It returns false if it has to wait for room.
func (e *Engine) importJobs(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	imported := op.Args.Import
	mark, begun := e.imports[imported.Source]
	if !begun || mark.Done != imported.From {
		answerImport(op, mark)
		return true
	}
	if e.journal != nil {
		if p.needsRoom = !p.forced && e.journal.overLimit(); p.needsRoom {
			return false
		}
		size := 0
		for i := range imported.Jobs {
			size += len(imported.Jobs[i].Body)
		}
		if !e.journal.guard.reserveRoom(size) {
			op.Answer.Err = storage.ErrNoSpace
			return true
		}
	}
	for i := range imported.Jobs {
		e.machine.Adopt(now, imported.Jobs[i].Record, imported.Jobs[i].Body)
	}
	e.spend(len(imported.Jobs))
	mark.Done += uint64(len(imported.Jobs))
	e.setImportMark(imported.Source, mark)
	answerImport(op, mark)
	return true
}

// importMarked records how far an import is. Its entry follows those of the jobs, so that the
// log never has it without them.
func (j *journal) importMarked(source string, m tables.ImportMark) {
	g, last := j.filling, j.machine.LastID()
	start := len(g.frame)
	g.frame = appendImportMark(g.frame, source, m, last)
	g.size += len(g.frame) - start
	g.mustSync = true
	j.window.Imports[source] = m
	if m.Done == 0 {
		j.window.skipTo(last)
	}
	j.countEntry()
}

// appendImportMark appends the entry that says how far an import is, and that all ids up to last are used.
func appendImportMark(frame []byte, source string, m tables.ImportMark, last uint64) []byte {
	frame = tables.AppendImportMark(appendTubeEntry(frame, importEntry, source), m)
	return binary.BigEndian.AppendUint64(frame, last)
}
