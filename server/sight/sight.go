package sight

import (
	"redstalk/protocol"
	"redstalk/tube"
)

// Sight is what somebody sees of the jobs of a tube. The zero Sight is that of somebody without rights.
type Sight struct {
	rights    protocol.Right
	redaction *Redaction
}

// Full is the sight of somebody with all rights.
var Full = Sight{rights: ^protocol.Right(0)}

// Of returns the sight of somebody with these rights on a tube, if a redaction applies.
func Of(rights protocol.Right, r *Redaction) Sight { return Sight{rights, r} }

// SeesContent reports whether bodies are shown, and all else that says what a job is about.
func (s Sight) SeesContent() bool { return s.rights&protocol.MayRead != 0 }

// isFull reports whether all is shown.
func (s Sight) isFull() bool { return s.SeesContent() && s.rules() == nil }

// rules are what is hidden of what is shown; nil: nothing.
func (s Sight) rules() *Redaction {
	if s.rights&protocol.MayAdmin != 0 {
		return nil
	}
	return s.redaction
}

// Body returns what is shown of a body, or of a result; nil without SeesContent.
func (s Sight) Body(body []byte) []byte {
	if !s.SeesContent() {
		return nil
	}
	return s.rules().JSON(body)
}

// Checkpoint returns what is shown of a checkpoint, which workers need as it is.
func (s Sight) Checkpoint(data []byte) []byte {
	if s.rights&protocol.MayWork != 0 {
		return data
	}
	return s.Body(data)
}

// text is Body for a text.
func (s Sight) text(text string) string {
	if !s.SeesContent() {
		return ""
	}
	return s.rules().text(text)
}

func (s Sight) meta(all []tube.Meta) []tube.Meta {
	if !s.SeesContent() {
		return nil
	}
	return s.rules().meta(all)
}

// Job returns what is shown of a job.
func (s Sight) Job(j *tube.JobStats) *tube.JobStats {
	if s.isFull() || j.Metadata == nil || j.Metadata.Notes == nil && j.Metadata.Progress == "" {
		return j
	}
	shown, metadata := *j, *j.Metadata
	shown.Metadata, metadata.Progress = &metadata, s.text(metadata.Progress)
	if n := metadata.Notes; n != nil {
		notes := *n
		notes.Meta, notes.Reason = s.meta(n.Meta), s.text(n.Reason)
		notes.Attempts = make([]tube.Attempt, len(n.Attempts))
		for i, a := range n.Attempts {
			notes.Attempts[i], notes.Attempts[i].Reason = a, s.text(a.Reason)
		}
		metadata.Notes = &notes
	}
	return &shown
}

// Ended returns what is shown of the record of a job.
func (s Sight) Ended(e *tube.Ended) *tube.Ended {
	if s.isFull() {
		return e
	}
	shown := *e
	shown.Meta, shown.Reason, shown.Result = s.meta(e.Meta), s.text(e.Reason), s.Body(e.Result)
	return &shown
}

// SeesSchedules reports whether the body and the meta of schedules are shown: administrators set them.
func (s Sight) SeesSchedules() bool {
	return s.rights&(protocol.MayRead|protocol.MayAdmin) != 0
}

// Schedule returns what is shown of a schedule.
func (s Sight) Schedule(of *tube.Schedule) *tube.Schedule {
	if s.isFull() || s.rights&protocol.MayAdmin != 0 {
		return of
	}
	shown := *of
	shown.Body = s.Body(of.Body)
	if of.Tags != nil {
		tags := *of.Tags
		tags.Meta, tags.Reason = s.meta(tags.Meta), s.text(tags.Reason)
		shown.Tags = &tags
	}
	return &shown
}
