package embedded

import (
	"slices"
	"testing"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// TestImages: draining gives the images in the order of ids, and keeps no page that it has left behind.
func TestImages(t *testing.T) {
	s := newImages()
	for _, id := range []uint64{40, 3, 1 << 40, 17, 16, 3, 5} {
		s.open(id)
	}
	s.remove(5)
	if s.count != 5 || s.find(5) != nil || s.find(4) != nil || s.find(1<<50) != nil || s.find(17) == nil {
		t.Errorf("%d images", s.count)
	}
	var got []uint64
	s.drain(func(id uint64, im *image) error {
		if got = append(got, id); s.pages[id/imagesPerPage] != nil || im == nil {
			t.Errorf("the page of job %d is still held", id)
		}
		return nil
	})
	if want := []uint64{3, 16, 17, 40, 1 << 40}; !slices.Equal(got, want) || s.count != 0 {
		t.Errorf("drained %d, want %d", got, want)
	}
}

// TestReplayedWindow: a start needs no entry of the window for each new job of the log, nor does it look at all ids that
// an import has reserved.
func TestReplayedWindow(t *testing.T) {
	for lastID, entries := range map[uint64]int{20: 0, 1 << 40: 10} {
		h := newHistory(make(interner))
		for id := uint64(11); id <= 20; id++ {
			*h.jobs.open(id) = image{put: true, record: string(tables.AppendRecord(nil, &tube.Record{ID: id, State: tube.Ready, Tube: "a", TTR: 1}))}
		}
		h.lastID = lastID
		l := loader{machine: tube.NewMachine(), cold: new(coldJobs), fromLog: h, window: newWindow(windowBase(10, h))}
		if err := h.jobs.drain(l.loadLogged); err != nil {
			t.Fatal(err)
		}
		if got := len(l.window.jobs); got != entries {
			t.Errorf("%d entries for ids 11 to 20 of up to %d, want %d", got, lastID, entries)
		}
	}
}
