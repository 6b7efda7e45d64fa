package storetest

import (
	"redstalk/storage"
	"redstalk/tube"
)

// testTraced: whoever reserves a job with a trace, and asks, learns what spans need.
func testTraced(b *harness) {
	tags := tube.Tags{Trace: aTrace, Meta: someMeta(), Key: "k"}
	id := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 90, Body: []byte("body"), Args: &storage.Args{Tags: &tags}}).ID
	plain := b.put("plain", 0)
	take := func(op storage.Op) storage.Op {
		op.Kind, op.Trace = storage.Take, true
		return op
	}
	ways := []storage.Op{
		take(storage.Op{Tubes: []string{"t"}, Holder: 1}),
		take(storage.Op{Tubes: []string{"t", "u"}, Holder: 1}),
		take(storage.Op{Tubes: []string{"u", "t"}, Holder: 1, First: true}),
		take(storage.Op{Tubes: []string{"t"}, Holder: 1, MaxBytes: 100}),
		take(storage.Op{Tubes: []string{"t"}, Holder: tube.LeaseHolder}),
		take(storage.Op{Tubes: []string{"t"}, Holder: tube.LeaseHolder, Info: true}),
		take(storage.Op{Tubes: []string{"t", "u"}, Holder: tube.LeaseHolder}),
		{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id, Trace: true},
	}
	for i, op := range ways {
		a := b.do(op)
		if a.ID != id || string(a.Body) != "body" || a.Result == nil || a.Result.Traced == nil {
			b.Fatalf("way %d: job %d, plain %d: %+v, %+v", i, id, plain, a, a.Result)
		}
		s := a.Result.Traced
		if s.ID != id || s.Tube != "t" || s.TTR != 90 || s.Metadata.AllNotes().Trace != aTrace || len(s.Metadata.AllNotes().Meta) != len(tags.Meta) || s.Created == 0 {
			b.Errorf("way %d: job %d: %+v, %+v", i, id, s, s.Metadata)
		}
		if got, want := s.Metadata.Deliveries(&s.Counters), uint32(i+1); got != want {
			b.Errorf("way %d: %d deliveries, want %d", i, got, want)
		}
		back := storage.Op{Kind: storage.Move, Move: tube.GiveBack, Holder: op.Holder, ID: id, Args: &storage.Args{Lease: a.Result.Lease}}
		if b.do(back).NotFound {
			b.Fatalf("way %d: not given back", i)
		}
	}
	for _, op := range []storage.Op{
		take(storage.Op{Tubes: []string{"plain"}, Holder: 1}),
		{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: plain, Trace: true},
	} {
		if a := b.do(op); a.ID != plain || a.Result != nil && a.Result.Traced != nil {
			b.Errorf("a job without a trace: %+v, %+v", a, a.Result)
		}
		b.must(tube.GiveBack, 1, plain)
	}
}
