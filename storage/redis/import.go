package redis

import (
	"encoding/binary"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Jobs of another server, see storage.Importer and lua/many/import.lua. Their ids were set aside
// when the import began, so they are no puts.

// Parts implements storage.Importer: they are the partitions.
func (s *Store) Parts() int { return len(s.parts) }

// PartOf implements storage.Importer.
func (s *Store) PartOf(tube string) int { return placeOf(tube, len(s.parts)) }

// IDOf implements storage.Importer.
func (s *Store) IDOf(part int, number uint64) uint64 {
	return number*uint64(len(s.parts)) + uint64(part)
}

// encodeImport appends the begin of an import, or jobs of one.
func (p *partition) encodeImport(c *call, op *storage.Op) {
	its := op.Rare.Import
	if op.Kind == storage.BeginImport {
		c.words("begin-import", its.Source, its.Least, its.Largest)
		c.expect((*partition).readBegunImport, op)
		return
	}
	c.imports = true
	c.words("import", its.Source, its.From, len(its.Jobs))
	for i := range its.Jobs {
		c.addImported(&its.Jobs[i])
	}
	c.expect((*partition).readImported, op)
}

// addImported appends a job.
func (c *call) addImported(j *storage.ImportJob) {
	score := strconv.FormatUint(uint64(j.Pri), 10)
	if j.State == tube.Delayed { // rounded up: nothing is ever early
		score = strconv.FormatInt((j.Rank+int64(time.Millisecond)-1)/int64(time.Millisecond), 10)
	}
	c.words(j.Tube, stateWord(j.State), score)
	c.addID(j.ID)
	c.words(len(j.Body))
	c.addStaged(stagedRecord{head: appendImportedHead(nil, &j.Record), body: j.Body})
}

// appendImportedHead is appendHead for a job that was put elsewhere.
func appendImportedHead(b []byte, r *tube.Record) []byte {
	b = append(b, recordLetter(r.State))
	b = binary.BigEndian.AppendUint32(b, max(r.TTR, tube.MinTTR))
	b = binary.BigEndian.AppendUint32(b, r.Pri)
	b = binary.BigEndian.AppendUint32(b, r.Delay)
	b = binary.BigEndian.AppendUint64(b, uint64(int64(r.Created)/int64(time.Millisecond)))
	for _, n := range r.Counters {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(b, byte(len(r.Tube)))
	return append(b, r.Tube...)
}

// readBegunImport reads where an import begins.
func (p *partition) readBegunImport(r *reply, ops []*storage.Op) {
	s := &storage.ImportState{Offset: r.count(), Done: r.count()}
	ops[0].Answer.Rare = &storage.RareAnswer{Import: s}
	p.ids.order.saw(r.count())
}

// readImported reads how far an import is.
func (p *partition) readImported(r *reply, ops []*storage.Op) {
	ops[0].Answer.Rare = &storage.RareAnswer{Import: &storage.ImportState{Done: r.count()}}
}
