package embedded

import (
	"maps"
	"slices"
)

// image is what a part of the log says about a job at its end.
type image struct {
	record string // encoded, which takes a third of the memory; all images exist at the same time
	body   []byte // nil if it was not put in this part of the log, or has none
	put    bool
	gone   bool
}

// imagesPerPage is how many images a page has: those of ids that follow each other.
const imagesPerPage = 16

// images are those of many jobs. They are in pages, so that the memory of those that are loaded is free while others
// are loaded: a start may not need much more memory than running.
type images struct {
	pages map[uint64]*[imagesPerPage]*image // by id / imagesPerPage
	count int
}

func newImages() images { return images{pages: make(map[uint64]*[imagesPerPage]*image)} }

// find returns the image of a job, nil if there is none.
func (s *images) find(id uint64) *image {
	if page := s.pages[id/imagesPerPage]; page != nil {
		return page[id%imagesPerPage]
	}
	return nil
}

// open returns the image of a job. It creates it if there is none.
func (s *images) open(id uint64) *image {
	page := s.pages[id/imagesPerPage]
	if page == nil {
		page = new([imagesPerPage]*image)
		s.pages[id/imagesPerPage] = page
	}
	im := &page[id%imagesPerPage]
	if *im == nil {
		*im = new(image)
		s.count++
	}
	return *im
}

// each calls do with every image, in no order.
func (s *images) each(do func(id uint64, im *image)) {
	for n, page := range s.pages {
		for i, im := range page {
			if im != nil {
				do(n*imagesPerPage+uint64(i), im)
			}
		}
	}
}

// remove removes the image of a job, which must be there.
func (s *images) remove(id uint64) {
	s.pages[id/imagesPerPage][id%imagesPerPage] = nil
	s.count--
}

// drain removes all images, and calls do with each in the order of ids.
func (s *images) drain(do func(id uint64, im *image) error) error {
	numbers := slices.AppendSeq(make([]uint64, 0, len(s.pages)), maps.Keys(s.pages))
	slices.Sort(numbers)
	for _, n := range numbers {
		page := s.pages[n]
		delete(s.pages, n)
		for i, im := range page {
			if page[i] = nil; im == nil {
				continue
			}
			if err := do(n*imagesPerPage+uint64(i), im); err != nil {
				return err
			}
		}
	}
	s.count = 0
	return nil
}
