package httpapi

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/protocol"
)

// table is the table of operations.
func (svc *service) table() []*row {
	return slices.Concat(svc.jobOperations(), svc.endedOperations(), svc.checkpointOperations(), svc.jobChanges(), svc.tubeOperations(), svc.historyOperations(), svc.groupOperations(), svc.scheduleOperations(), svc.jobBatchOperations(), svc.instanceOperations())
}

func (svc *service) jobOperations() []*row {
	put := direct[putInput, putOutput](svc, Operation{"POST", "/v1/tubes/{tube}/jobs", rightOf(protocol.Put), InPath}, doc("put", "Put a job", 201,
		"With the content type application/json the request body describes the job. With any other content type it is the body of the job, and the query has the options. With a wait it waits for the end of the job, and answers 200 with its record."), svc.put)
	put.anyBody, put.extraQuery, put.extraStatuses = true, termsInQuery, []int{409, 413, 429, 507}
	put.record = "the job has ended within the wait"
	put.extraBodies = rawBody()
	putBatch := direct[batchInput, batchOutput](svc, Operation{"POST", "/v1/tubes/{tube}/jobs/batch", rightOf(protocol.Put), InPath}, doc("putBatch", "Put up to 1,000 jobs", 200,
		"The answer has a result for each job, in the same order."), svc.putBatch)
	putBatch.extraStatuses = []int{413}
	reserve := direct[reserveInput, reserveOutput](svc, Operation{"POST", "/v1/reserve", rightOf(protocol.ReserveLease), InQuery}, doc("reserve", "Reserve jobs with leases", 200,
		"Waits for the first job only."), svc.reserve)
	reserve.extraStatuses, reserve.noBody = []int{429}, "there was no job within the wait"
	return []*row{
		put, putBatch, reserve,
		direct[finishInput, noOutput](svc, Operation{"DELETE", "/v1/jobs/{id}", rightOf(protocol.Delete), OfJob}, doc("finish", "Delete a job", 204,
			"With a lease: the job is done (acknowledged). Without a lease: deletes a job that is not reserved."), svc.finish),
		direct[finishBatchInput, batchOutput](svc, Operation{"POST", "/v1/jobs/finish", rightOf(protocol.DeleteBatch), OfJob}, doc("finishBatch", "Delete up to 1,000 jobs", 200,
			"The answer has a result for each job, in the same order."), svc.finishBatch),
		direct[releaseInput, noOutput](svc, Operation{"POST", "/v1/jobs/{id}/release", rightOf(protocol.ReleaseLease), OfJob}, doc("release", "Release a leased job", 204,
			"The job counts as failed. Without a priority it keeps its own."), svc.release),
		direct[buryInput, noOutput](svc, Operation{"POST", "/v1/jobs/{id}/bury", rightOf(protocol.BuryLease), OfJob}, doc("bury", "Bury (park) a leased job", 204, ""), svc.bury),
		direct[touchInput, noOutput](svc, Operation{"POST", "/v1/jobs/{id}/touch", rightOf(protocol.TouchLease), OfJob}, doc("touch", "Restart the TTR (visibility timeout) of a leased job", 204, "It can say how far the job is."), svc.touch),
		typed(svc, Operation{"GET", "/v1/jobs/{id}", rightOf(protocol.StatsJob), OfJob}, doc("job", "Get a job", 200, "The body needs the right read."), svc.job),
	}
}

func (svc *service) tubeOperations() []*row {
	jobs := typed(svc, Operation{"GET", "/v1/tubes/{tube}/jobs", rightOf(protocol.ListJobs), InPath}, doc("jobs", "List the jobs of a tube in a state", 200,
		"In the order in which they would be delivered, without bodies."), svc.jobs)
	jobs.extraStatuses = []int{429}
	return []*row{
		jobs,
		typed(svc, Operation{"GET", "/v1/tubes", rightOf(protocol.ListTubes), Listed}, doc("tubes", "List tubes with their counts", 200, "Sorted by name."), svc.tubes),
		typed(svc, Operation{"GET", "/v1/tubes/{tube}", rightOf(protocol.StatsTube), InPath}, doc("tube", "Get a tube", 200, ""), svc.tube),
		typed(svc, Operation{"DELETE", "/v1/tubes/{tube}/jobs", rightOf(protocol.FlushTube), InPath}, doc("flush", "Delete the jobs of a tube", 200,
			"Without a state: all ready, delayed and buried jobs."), svc.flush),
		typed(svc, Operation{"GET", "/v1/tubes/{tube}/keys/{key}", rightOf(protocol.StatsJob), InPath}, doc("jobByKey", "Get the job that has a key", 200, "The body needs the right read."), svc.jobByKey),
		typed(svc, Operation{"DELETE", "/v1/tubes/{tube}/keys/{key}", rightOf(protocol.DeleteKey), InPath}, doc("deleteByKey", "Delete the job that has a key", 204,
			"In any state, even if it is reserved."), svc.deleteByKey),
		typed(svc, Operation{"POST", "/v1/tubes/{tube}/kick", rightOf(protocol.Kick), InPath}, doc("kick", "Make buried jobs ready; if there are none, delayed jobs", 200, ""), svc.kick),
		typed(svc, Operation{"POST", "/v1/tubes/{tube}/pause", rightOf(protocol.PauseTube), InPath}, doc("pause", "Pause a tube: no job is reserved from it for a time", 204,
			"The reason is held only in the memory of the instance that receives the request."), svc.pause),
		typed(svc, Operation{"POST", "/v1/tubes/{tube}/move", rightOf(protocol.MoveJobs), InPath}, doc("move", "Move jobs to another tube", 200, "They get new ids."), svc.move),
		typed(svc, Operation{"GET", "/v1/tubes/{tube}/policy", rightOf(protocol.GetPolicy), InPath}, doc("policy", "Get the policy of a tube or of a pattern such as mail*", 200, ""), svc.policy),
		typed(svc, Operation{"PUT", "/v1/tubes/{tube}/policy", rightOf(protocol.SetPolicy), InPath}, doc("setPolicy", "Set the policy of a tube or of a pattern such as mail*", 204, "Replaces the previous policy."), svc.setPolicy),
		typed(svc, Operation{"DELETE", "/v1/tubes/{tube}/policy", rightOf(protocol.SetPolicy), InPath}, doc("deletePolicy", "Delete the policy of a tube or of a pattern such as mail*", 204, ""), svc.deletePolicy),
	}
}

func (svc *service) instanceOperations() []*row {
	events := direct[eventsInput, eventsOutput](svc, Operation{"GET", "/v1/events", protocol.MayList, InQuery}, doc("events", "Counts of tubes, once a second", 200,
		"Server-sent events named tubes. Without a tube: all tubes, at most 1,000."), svc.events)
	events.extraStatuses = []int{429}
	return append([]*row{
		events, svc.backupOperation(),
		typed(svc, Operation{"GET", "/v1/server", rightOf(protocol.Stats), NoTube}, doc("server", "Get the instance and the totals of its store", 200, ""), svc.server),
		typed(svc, Operation{"POST", "/v1/server/drain", rightOf(protocol.Drain), NoTube}, doc("drain", "Make this instance refuse puts", 204, ""), svc.drain),
		typed(svc, Operation{"POST", "/v1/server/undrain", rightOf(protocol.Undrain), NoTube}, doc("undrain", "Make this instance accept puts again", 204, ""), svc.undrain),
	}, append(svc.clientOperations(), svc.consoleOperations()...)...)
}

// consoleOperations are the operations that exist for the console.
func (svc *service) consoleOperations() []*row {
	watch := direct[struct{}, watchOutput](svc, Operation{"GET", "/v1/watch", protocol.MayList, Listed}, doc("watch", "All tubes, then the tubes that change", 200,
		"Server-sent events named tubes, at most one per second; with very many tubes they are less frequent."), svc.watch)
	watch.extraStatuses = []int{429}
	search := typed(svc, Operation{"GET", "/v1/search", rightOf(protocol.ListJobs), InQuery}, doc("search", "Search the jobs of all tubes", 200,
		"A request examines a part of the jobs; the answer has the cursor for the next part, which needs the same parameters. Tube by tube in the order of their names."), svc.search)
	actOnAll := typed(svc, Operation{"POST", "/v1/search/actions", rightOf(protocol.KickJob), Listed}, doc("actOnAll", "Apply one action to all jobs that a search finds", 200,
		"A request examines a part of the jobs; the answer has the cursor for the next part, which needs the same body. Only in tubes on which the user has the rights list and admin. Reserved jobs are skipped."), svc.actOnAll)
	search.extraStatuses, actOnAll.extraStatuses = []int{429}, []int{429}
	return []*row{
		watch, search, actOnAll,
		typed(svc, Operation{"GET", "/v1/jobs", rightOf(protocol.ListTubes), Listed}, doc("jobsByKey", "Find the jobs of all tubes that have a key", 200, ""), svc.jobsByKey),
		typed(svc, Operation{"GET", "/v1/charts", rightOf(protocol.ListTubes), Listed}, doc("charts", "How many jobs were ready in the last minutes", 200,
			"For at most 1,000 tubes. The charts are in the memory of the instance that receives the request."), svc.charts),
		typed(svc, Operation{"GET", "/v1/tubes/{tube}/chart", rightOf(protocol.StatsTube), InPath}, doc("chart", "The chart of a tube for the last hour", 200,
			"It is in the memory of the instance that receives the request."), svc.chart),
		typed(svc, Operation{"POST", "/v1/jobs/actions", rightOf(protocol.KickJob), OfJob}, doc("act", "Apply one action to up to 1,000 jobs", 200,
			"Reserved jobs are skipped."), svc.act),
		typed(svc, Operation{"GET", "/v1/caller", rightOf(protocol.Capabilities), NoTube}, doc("caller", "The user of the request and its rights", 200, ""), svc.caller),
		typed(svc, Operation{"GET", "/v1/store", rightOf(protocol.Stats), NoTube}, doc("store", "Get the engine and the processes that share or keep its data", 200,
			"Counts are those of the instance that receives the request, since it started. Redis nodes are queried."), svc.store),
	}
}

// rawBody documents a body that is taken as it is.
func rawBody() map[string]*huma.Schema {
	return map[string]*huma.Schema{octetType: {Type: huma.TypeString, Format: "binary"}}
}

// doc documents an operation. Generated clients name their functions by the id.
func doc(id, summary string, status int, description string) huma.Operation {
	return huma.Operation{OperationID: id, Summary: summary, Description: description, DefaultStatus: status}
}
