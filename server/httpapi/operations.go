package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/protocol"
	"redstalk/server/httpserve"
)

// Right is the right that a caller needs on the tubes that an operation concerns. It is that of a
// command of the beanstalk protocol which does the same.
type Right = protocol.Right

const read = protocol.MayRead

// rightOf returns the right that a verb needs.
func rightOf(v protocol.Verb) Right { return v.Spec().Need.One }

// TubeAt says where an operation names the tubes that it concerns.
type TubeAt string

// Where tubes are named.
const (
	NoTube  TubeAt = ""      // nowhere: the operation concerns the instance
	InPath  TubeAt = "path"  // in the path, as {tube}
	InQuery TubeAt = "query" // in the query, as tube, any number of times; the tube default if there is none
	OfJob   TubeAt = "job"   // the tube of the job {id} in the path, or of the jobs in the body
	Listed  TubeAt = "list"  // the answer lists tubes
)

// Operation is the public description of an operation.
type Operation struct {
	Method, Path string // in the form of http.ServeMux patterns
	Right        Right
	Tube         TubeAt
}

// row is an operation with its handler and its documentation.
type row struct {
	Operation
	anyBody bool // the body can have any content type

	doc      huma.Operation
	register func(api huma.API, doc huma.Operation) // adds it to the document and to huma
	direct   http.HandlerFunc                       // if not nil, serves it instead of huma

	// The part of the documentation that does not follow from the types.
	extraStatuses []int                   // further statuses of problems
	extraBodies   map[string]*huma.Schema // further request bodies, by content type
	noBody        string                  // what the answer 204 means, if 200 is possible as well

	query map[string]bool // the query parameters, and whether they can be repeated
}

// typed returns a row whose input huma parses and validates. If f returns nil, the answer
// has no body.
func typed[I, O any](api *API, op Operation, doc huma.Operation, f func(context.Context, *I) (*O, error)) *row {
	problems := func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, api.problem(err, op.Method, op.Path)
		}
		if out == nil {
			out = new(O)
		}
		return out, nil
	}
	return &row{Operation: op, doc: doc, register: func(api huma.API, doc huma.Operation) { huma.Register(api, doc, problems) }}
}

// direct returns a row whose handler parses requests itself. I and O only document it.
func direct[I, O any](api *API, op Operation, doc huma.Operation, h http.HandlerFunc) *row {
	r := typed(api, op, doc, func(context.Context, *I) (*O, error) { return nil, nil })
	r.direct = h
	return r
}

// Operations returns all operations.
func (api *API) Operations() (all []Operation) {
	for _, r := range api.rows {
		all = append(all, r.Operation)
	}
	return all
}

// table is the table of operations.
func (api *API) table() []*row {
	return slices.Concat(api.jobOperations(), api.tubeOperations(), api.instanceOperations())
}

func (api *API) jobOperations() []*row {
	put := direct[rawPutInput, putOutput](api, Operation{"POST", "/v1/tubes/{tube}/jobs", rightOf(protocol.Put), InPath}, doc("put", "Put a job", 201,
		"With the content type application/json the request body describes the job. With any other content type it is the body of the job, and the query has the options."), api.put)
	put.anyBody, put.extraStatuses = true, []int{409, 413, 507}
	put.extraBodies = map[string]*huma.Schema{"application/octet-stream": {Type: huma.TypeString, Format: "binary"}}
	putBatch := direct[batchInput, batchOutput](api, Operation{"POST", "/v1/tubes/{tube}/jobs/batch", rightOf(protocol.Put), InPath}, doc("putBatch", "Put up to 1,000 jobs", 200,
		"The answer has a result for each job, in the same order."), api.putBatch)
	putBatch.extraStatuses = []int{413}
	reserve := direct[reserveInput, reserveOutput](api, Operation{"POST", "/v1/reserve", rightOf(protocol.ReserveLease), InQuery}, doc("reserve", "Reserve jobs with leases", 200,
		"Waits for the first job only."), api.reserve)
	reserve.extraStatuses, reserve.noBody = []int{429}, "there was no job within the wait"
	return []*row{
		put, putBatch, reserve,
		direct[finishInput, noOutput](api, Operation{"DELETE", "/v1/jobs/{id}", rightOf(protocol.Delete), OfJob}, doc("finish", "Delete a job", 204,
			"With a lease: the job is done (acknowledged). Without a lease: deletes a job that is not reserved."), api.finish),
		direct[finishBatchInput, batchOutput](api, Operation{"POST", "/v1/jobs/finish", rightOf(protocol.DeleteBatch), OfJob}, doc("finishBatch", "Delete up to 1,000 jobs", 200,
			"The answer has a result for each job, in the same order."), api.finishBatch),
		direct[releaseInput, noOutput](api, Operation{"POST", "/v1/jobs/{id}/release", rightOf(protocol.ReleaseLease), OfJob}, doc("release", "Release a leased job", 204,
			"The job counts as failed. Without a priority it keeps its own."), api.release),
		direct[buryInput, noOutput](api, Operation{"POST", "/v1/jobs/{id}/bury", rightOf(protocol.BuryLease), OfJob}, doc("bury", "Bury (park) a leased job", 204, ""), api.bury),
		direct[touchInput, noOutput](api, Operation{"POST", "/v1/jobs/{id}/touch", rightOf(protocol.TouchLease), OfJob}, doc("touch", "Restart the TTR (visibility timeout) of a leased job", 204, ""), api.touch),
		typed(api, Operation{"GET", "/v1/jobs/{id}", rightOf(protocol.Peek), OfJob}, doc("job", "Get a job", 200, ""), api.job),
		typed(api, Operation{"POST", "/v1/jobs/{id}/kick", rightOf(protocol.KickJob), OfJob}, doc("kickJob", "Make a buried or delayed job ready", 204, ""), api.kickJob),
		typed(api, Operation{"POST", "/v1/jobs/{id}/reschedule", rightOf(protocol.Reschedule), OfJob}, doc("reschedule", "Change when a ready or delayed job is due", 204, ""), api.reschedule),
		typed(api, Operation{"POST", "/v1/jobs/{id}/priority", rightOf(protocol.SetPriority), OfJob}, doc("setPriority", "Change the priority of a job that is not reserved", 204, ""), api.setPriority),
	}
}

func (api *API) tubeOperations() []*row {
	jobs := typed(api, Operation{"GET", "/v1/tubes/{tube}/jobs", rightOf(protocol.ListJobs), InPath}, doc("jobs", "List the jobs of a tube in a state", 200,
		"In the order in which they would be delivered, without bodies."), api.jobs)
	jobs.extraStatuses = []int{429}
	return []*row{
		jobs,
		typed(api, Operation{"GET", "/v1/tubes", rightOf(protocol.ListTubes), Listed}, doc("tubes", "List tubes with their counts", 200, "Sorted by name."), api.tubes),
		typed(api, Operation{"GET", "/v1/tubes/{tube}", rightOf(protocol.StatsTube), InPath}, doc("tube", "Get a tube", 200, ""), api.tube),
		typed(api, Operation{"DELETE", "/v1/tubes/{tube}/jobs", rightOf(protocol.FlushTube), InPath}, doc("flush", "Delete the jobs of a tube", 200,
			"Without a state: all ready, delayed and buried jobs."), api.flush),
		typed(api, Operation{"GET", "/v1/tubes/{tube}/keys/{key}", rightOf(protocol.Find), InPath}, doc("jobByKey", "Get the job that has a key", 200, ""), api.jobByKey),
		typed(api, Operation{"DELETE", "/v1/tubes/{tube}/keys/{key}", rightOf(protocol.DeleteKey), InPath}, doc("deleteByKey", "Delete the job that has a key", 204,
			"In any state, even if it is reserved."), api.deleteByKey),
		typed(api, Operation{"POST", "/v1/tubes/{tube}/kick", rightOf(protocol.Kick), InPath}, doc("kick", "Make buried jobs ready; if there are none, delayed jobs", 200, ""), api.kick),
		typed(api, Operation{"POST", "/v1/tubes/{tube}/pause", rightOf(protocol.PauseTube), InPath}, doc("pause", "Pause a tube: no job is reserved from it for a time", 204,
			"The reason is held only in the memory of the instance that receives the request."), api.pause),
		typed(api, Operation{"POST", "/v1/tubes/{tube}/move", rightOf(protocol.MoveJobs), InPath}, doc("move", "Move jobs to another tube", 200, "They get new ids."), api.move),
		typed(api, Operation{"GET", "/v1/tubes/{tube}/policy", rightOf(protocol.GetPolicy), InPath}, doc("policy", "Get the policy of a tube", 200, ""), api.policy),
		typed(api, Operation{"PUT", "/v1/tubes/{tube}/policy", rightOf(protocol.SetPolicy), InPath}, doc("setPolicy", "Set the policy of a tube", 204, "Replaces the previous policy."), api.setPolicy),
		typed(api, Operation{"DELETE", "/v1/tubes/{tube}/policy", rightOf(protocol.SetPolicy), InPath}, doc("deletePolicy", "Delete the policy of a tube", 204, ""), api.deletePolicy),
	}
}

func (api *API) instanceOperations() []*row {
	events := direct[eventsInput, eventsOutput](api, Operation{"GET", "/v1/events", read, InQuery}, doc("events", "Counts of tubes, once a second", 200,
		"Server-sent events named tubes. Without a tube: all tubes, at most 1,000."), api.events)
	events.extraStatuses = []int{429}
	return append([]*row{
		events,
		typed(api, Operation{"GET", "/v1/server", rightOf(protocol.Stats), NoTube}, doc("server", "Get the instance and the totals of its store", 200, ""), api.server),
		typed(api, Operation{"POST", "/v1/server/drain", rightOf(protocol.Drain), NoTube}, doc("drain", "Make this instance refuse puts", 204, ""), api.drain),
		typed(api, Operation{"POST", "/v1/server/undrain", rightOf(protocol.Undrain), NoTube}, doc("undrain", "Make this instance accept puts again", 204, ""), api.undrain),
	}, api.consoleOperations()...)
}

// consoleOperations are the operations that exist for the console.
func (api *API) consoleOperations() []*row {
	watch := direct[struct{}, watchOutput](api, Operation{"GET", "/v1/watch", read, Listed}, doc("watch", "All tubes, then the tubes that change", 200,
		"Server-sent events named tubes, at most one a second; with very many tubes they are less frequent."), api.watch)
	watch.extraStatuses = []int{429}
	search := typed(api, Operation{"GET", "/v1/tubes/{tube}/search", rightOf(protocol.ListJobs), InPath}, doc("search", "Search jobs by their bodies and keys", 200,
		"A request examines a part of the jobs; the answer has the cursor for the next part."), api.search)
	parked := typed(api, Operation{"GET", "/v1/parked", rightOf(protocol.ListTubes), Listed}, doc("parked", "List jobs that have used up their retries or deliveries", 200,
		"A request examines a part of the buried jobs; the answer has the cursor for the next part."), api.parked)
	search.extraStatuses, parked.extraStatuses = []int{429}, []int{429}
	return []*row{
		watch, search, parked,
		typed(api, Operation{"GET", "/v1/charts", rightOf(protocol.ListTubes), Listed}, doc("charts", "How many jobs were ready in the last minutes", 200,
			"For at most 1,000 tubes. The charts are in the memory of the instance that receives the request."), api.charts),
		typed(api, Operation{"GET", "/v1/tubes/{tube}/chart", rightOf(protocol.StatsTube), InPath}, doc("chart", "The chart of a tube for the last hour", 200,
			"It is in the memory of the instance that receives the request."), api.chart),
		typed(api, Operation{"POST", "/v1/jobs/actions", rightOf(protocol.KickJob), OfJob}, doc("act", "Apply one action to up to 1,000 jobs", 200,
			"Reserved jobs are skipped."), api.act),
		typed(api, Operation{"GET", "/v1/caller", read, NoTube}, doc("caller", "The user of the request and its rights", 200, ""), api.caller),
		typed(api, Operation{"GET", "/v1/store", rightOf(protocol.Stats), NoTube}, doc("store", "Get the engine and the processes that share or keep its data", 200,
			"Counts are those of the instance that receives the request, since it started. Redis nodes are queried."), api.store),
	}
}

// doc documents an operation. Generated clients name their functions by the id.
func doc(id, summary string, status int, description string) huma.Operation {
	return huma.Operation{OperationID: id, Summary: summary, Description: description, DefaultStatus: status}
}

// route builds the muxes from the table of operations.
func (api *API) route() {
	api.rows = api.table()
	api.huma = api.newHuma()
	allowed := make(map[string][]string)
	for _, row := range api.rows {
		allowed[row.Path] = append(allowed[row.Path], row.Method)
		row.document(api.huma)
	}
	api.mux.HandleFunc("GET /openapi.json", api.openAPI())
	api.mux.HandleFunc("GET /docs", api.docs)
	for path, methods := range allowed {
		api.paths.Handle(path, notAllowed(methods))
	}
	api.mountHandlers()
}

// mountHandlers adds the handlers of the Config, and the fallback for all other paths.
func (api *API) mountHandlers() {
	elsewhere := http.Handler(http.HandlerFunc(noSuchPath))
	for pattern, h := range api.config.Handlers {
		if pattern == "/" {
			elsewhere = h
			continue
		}
		if need, guarded := handlerRights[pattern[strings.IndexByte(pattern, '/'):]]; guarded {
			h = api.config.Access.Protect(h, need)
		}
		api.mux.Handle(pattern, h)
	}
	api.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h, pattern := api.paths.Handler(r); pattern != "" {
			h.ServeHTTP(w, r)
			return
		}
		elsewhere.ServeHTTP(w, r)
	})
}

// notAllowed returns a handler for requests with a method that a path does not have.
func notAllowed(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		newProblem(http.StatusMethodNotAllowed, codeUnsupported, "%s: this path allows %s", r.Method, allow).Write(w)
	}
}

func noSuchPath(w http.ResponseWriter, _ *http.Request) {
	newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such path; /docs lists all paths").Write(w)
}

// document registers the row, and stores its query parameters.
func (row *row) document(api huma.API) {
	doc := row.doc
	doc.Method, doc.Path = row.Method, row.Path
	doc.Tags = []string{strings.Split(row.Path, "/")[2]}
	doc.Extensions = map[string]any{"x-right": row.Right.String()}
	doc.BodyReadTimeout = httpserve.BodyTimeout
	doc.Errors = []int{400, 401, 403, 404, 415, 422, 503}
	doc.Errors = append(doc.Errors, row.extraStatuses...)
	row.register(api, doc)

	row.query = make(map[string]bool)
	operation := operationOf(api, row)
	for _, p := range operation.Parameters {
		if p.In == "query" {
			row.query[p.Name] = p.Schema.Type == huma.TypeArray
		}
	}
	for kind, schema := range row.extraBodies {
		operation.RequestBody.Content[kind] = &huma.MediaType{Schema: schema}
	}
	if row.noBody != "" {
		operation.Responses["204"] = &huma.Response{Description: row.noBody}
	}
}
