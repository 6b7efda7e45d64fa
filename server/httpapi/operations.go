package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/server/httpserve"
)

// Right is what a caller must be allowed to do, with the tubes that an operation concerns.
type Right string

// The rights.
const (
	Put   Right = "put"
	Work  Right = "work"
	Read  Right = "look"
	Admin Right = "admin"
)

// TubeAt says where an operation names the tubes that it concerns.
type TubeAt string

// Where tubes are named.
const (
	NoTube  TubeAt = ""      // nowhere: it concerns the instance
	InPath  TubeAt = "path"  // in the path, as {tube}
	InQuery TubeAt = "query" // in the query, any number of times, as tube; "default" if it is not there
	OfJob   TubeAt = "job"   // it is that of the job in the path, {id}, or of the jobs in the body
	Listed  TubeAt = "list"  // the answer lists tubes
)

// Operation is what is known of an operation from outside.
type Operation struct {
	Method, Path string // as http.ServeMux has them
	Right        Right
	Tube         TubeAt
}

// row is an operation with how it is carried out and documented.
type row struct {
	Operation
	raw bool // bodies may be of any type

	doc      huma.Operation
	register func(api huma.API, doc huma.Operation) // adds it to the document, and has huma serve it
	direct   http.HandlerFunc                       // serves it instead, unless nil

	// What the types do not say for the document.
	refusals []int                   // further statuses of problems
	bodies   map[string]*huma.Schema // further bodies, by their types
	none     string                  // what an answer without a body means, beside one that has it

	query map[string]bool // the parameters in its query, and whether they may come several times
}

// typed returns a row whose input huma reads and checks. An operation that answers with
// nothing has the status 204.
func typed[I, O any](d *Door, op Operation, doc huma.Operation, f func(context.Context, *I) (*O, error)) *row {
	problems := func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, d.problem(err, op.Method, op.Path)
		}
		if out == nil {
			out = new(O)
		}
		return out, nil
	}
	return &row{Operation: op, doc: doc, register: func(api huma.API, doc huma.Operation) { huma.Register(api, doc, problems) }}
}

// direct returns a row that reads its requests by itself. I and O only document it.
func direct[I, O any](d *Door, op Operation, doc huma.Operation, h http.HandlerFunc) *row {
	r := typed(d, op, doc, func(context.Context, *I) (*O, error) { return nil, nil })
	r.direct = h
	return r
}

// Operations returns all operations.
func (d *Door) Operations() (all []Operation) {
	for _, r := range d.rows {
		all = append(all, r.Operation)
	}
	return all
}

// table is the table of operations.
func (d *Door) table() []*row {
	return slices.Concat(d.jobOperations(), d.tubeOperations(), d.instanceOperations())
}

func (d *Door) jobOperations() []*row {
	put := direct[rawPutInput, putOutput](d, Operation{"POST", "/v1/tubes/{tube}/jobs", Put, InPath}, doc("put", "Put a job", 201,
		"With the content type application/json the body describes the job. With any other one it is the body of the job, and the query says the rest."), d.put)
	put.raw, put.refusals = true, []int{409, 413, 507}
	put.bodies = map[string]*huma.Schema{"application/octet-stream": {Type: huma.TypeString, Format: "binary"}}
	putBatch := direct[batchInput, batchOutput](d, Operation{"POST", "/v1/tubes/{tube}/jobs/batch", Put, InPath}, doc("putBatch", "Put up to 1,000 jobs", 200,
		"Each job is answered for itself, in the same order."), d.putBatch)
	putBatch.refusals = []int{413}
	reserve := direct[reserveInput, reserveOutput](d, Operation{"POST", "/v1/reserve", Work, InQuery}, doc("reserve", "Reserve jobs by leases", 200,
		"Waits for the first job only."), d.reserve)
	reserve.refusals, reserve.none = []int{429}, "no job has come in time"
	return []*row{
		put, putBatch, reserve,
		direct[finishInput, noOutput](d, Operation{"DELETE", "/v1/jobs/{id}", Work, OfJob}, doc("finish", "Delete a job", 204,
			"With its lease: the job is done. Without: a job that nobody holds is removed."), d.finish),
		direct[finishBatchInput, batchOutput](d, Operation{"POST", "/v1/jobs/finish", Work, OfJob}, doc("finishBatch", "Delete up to 1,000 jobs", 200,
			"Each job is answered for itself, in the same order."), d.finishBatch),
		direct[releaseInput, noOutput](d, Operation{"POST", "/v1/jobs/{id}/release", Work, OfJob}, doc("release", "Release a leased job", 204,
			"The job counts as failed. What is not said of priority stays as it is."), d.release),
		direct[buryInput, noOutput](d, Operation{"POST", "/v1/jobs/{id}/bury", Work, OfJob}, doc("bury", "Set a leased job aside", 204, ""), d.bury),
		direct[touchInput, noOutput](d, Operation{"POST", "/v1/jobs/{id}/touch", Work, OfJob}, doc("touch", "Begin the TTR of a leased job anew", 204, ""), d.touch),
		typed(d, Operation{"GET", "/v1/jobs/{id}", Read, OfJob}, doc("job", "Look at a job", 200, ""), d.job),
		typed(d, Operation{"POST", "/v1/jobs/{id}/kick", Admin, OfJob}, doc("kickJob", "Make a buried or delayed job ready", 204, ""), d.kickJob),
		typed(d, Operation{"POST", "/v1/jobs/{id}/reschedule", Admin, OfJob}, doc("reschedule", "Change when a ready or delayed job is due", 204, ""), d.reschedule),
		typed(d, Operation{"POST", "/v1/jobs/{id}/priority", Admin, OfJob}, doc("setPriority", "Change the priority of a job that is not reserved", 204, ""), d.setPriority),
	}
}

func (d *Door) tubeOperations() []*row {
	jobs := typed(d, Operation{"GET", "/v1/tubes/{tube}/jobs", Read, InPath}, doc("jobs", "List jobs of a tube in a state", 200,
		"In the order in which they would come out, without bodies."), d.jobs)
	jobs.refusals = []int{429}
	return []*row{
		jobs,
		typed(d, Operation{"GET", "/v1/tubes", Read, Listed}, doc("tubes", "List tubes with their counts", 200, "In the order of their names."), d.tubes),
		typed(d, Operation{"GET", "/v1/tubes/{tube}", Read, InPath}, doc("tube", "Look at a tube", 200, ""), d.tube),
		typed(d, Operation{"DELETE", "/v1/tubes/{tube}/jobs", Admin, InPath}, doc("flush", "Remove jobs of a tube", 200,
			"Without a state: those that are ready, delayed and buried."), d.flush),
		typed(d, Operation{"GET", "/v1/tubes/{tube}/keys/{key}", Read, InPath}, doc("jobByKey", "Look at the job that has a key", 200, ""), d.jobByKey),
		typed(d, Operation{"DELETE", "/v1/tubes/{tube}/keys/{key}", Work, InPath}, doc("deleteByKey", "Delete the job that has a key", 204,
			"Whatever its state, and whoever holds it."), d.deleteByKey),
		typed(d, Operation{"POST", "/v1/tubes/{tube}/kick", Admin, InPath}, doc("kick", "Make buried jobs ready, or if there are none delayed ones", 200, ""), d.kick),
		typed(d, Operation{"POST", "/v1/tubes/{tube}/pause", Admin, InPath}, doc("pause", "Stop reserves from a tube for a while", 204,
			"The reason is kept in the memory of the instance that is asked."), d.pause),
		typed(d, Operation{"POST", "/v1/tubes/{tube}/move", Admin, InPath}, doc("move", "Move jobs to another tube", 200, "They get new ids."), d.move),
		typed(d, Operation{"GET", "/v1/tubes/{tube}/policy", Admin, InPath}, doc("policy", "Read the policy of a tube", 200, ""), d.policy),
		typed(d, Operation{"PUT", "/v1/tubes/{tube}/policy", Admin, InPath}, doc("setPolicy", "Give a tube a policy", 204, "It replaces the one that was there."), d.setPolicy),
		typed(d, Operation{"DELETE", "/v1/tubes/{tube}/policy", Admin, InPath}, doc("deletePolicy", "Take the policy of a tube away", 204, ""), d.deletePolicy),
	}
}

func (d *Door) instanceOperations() []*row {
	events := direct[eventsInput, eventsOutput](d, Operation{"GET", "/v1/events", Read, InQuery}, doc("events", "Counts of tubes, once a second", 200,
		"Server-sent events with the name tubes. Without a tube: all tubes, at most 1,000."), d.events)
	events.refusals = []int{429}
	return append([]*row{
		events,
		typed(d, Operation{"GET", "/v1/server", Read, NoTube}, doc("server", "Look at the instance and its store", 200, ""), d.server),
		typed(d, Operation{"POST", "/v1/server/drain", Admin, NoTube}, doc("drain", "Have this instance refuse puts", 204, ""), d.drain),
		typed(d, Operation{"POST", "/v1/server/undrain", Admin, NoTube}, doc("undrain", "Have this instance accept puts again", 204, ""), d.undrain),
	}, d.consoleOperations()...)
}

// consoleOperations are those that the console needs beside the others.
func (d *Door) consoleOperations() []*row {
	watch := direct[struct{}, watchOutput](d, Operation{"GET", "/v1/watch", Read, Listed}, doc("watch", "All tubes, and then what changes", 200,
		"Server-sent events with the name tubes. At most once a second; a store with very many tubes is looked at less often."), d.watch)
	watch.refusals = []int{429}
	search := typed(d, Operation{"GET", "/v1/tubes/{tube}/search", Read, InPath}, doc("search", "Look for jobs by their bodies and keys", 200,
		"Looks at some of the jobs, and says how far it came."), d.search)
	parked := typed(d, Operation{"GET", "/v1/parked", Read, Listed}, doc("parked", "List jobs that have used up their retries or deliveries", 200,
		"Looks at some of the buried jobs, and says how far it came."), d.parked)
	search.refusals, parked.refusals = []int{429}, []int{429}
	return []*row{
		watch, search, parked,
		typed(d, Operation{"GET", "/v1/charts", Read, Listed}, doc("charts", "How many jobs were ready in the last minutes", 200,
			"Of at most 1,000 tubes. Kept in the memory of the instance that is asked."), d.charts),
		typed(d, Operation{"GET", "/v1/tubes/{tube}/chart", Read, InPath}, doc("chart", "The chart of a tube, of the last hour", 200,
			"Kept in the memory of the instance that is asked."), d.chart),
		typed(d, Operation{"POST", "/v1/jobs/actions", Admin, OfJob}, doc("act", "Do the same to up to 1,000 jobs", 200,
			"Those that somebody has reserved are left alone."), d.act),
		typed(d, Operation{"GET", "/v1/caller", Read, NoTube}, doc("caller", "Who one is, and what one may do", 200, ""), d.caller),
		typed(d, Operation{"GET", "/v1/store", Read, NoTube}, doc("store", "Look at the engine, and at the processes around it", 200,
			"Counts are of the instance that is asked, since it began. Redis is asked how it is."), d.store),
	}
}

// doc documents an operation. Its id tells clients that are generated what to call it.
func doc(id, summary string, status int, description string) huma.Operation {
	return huma.Operation{OperationID: id, Summary: summary, Description: description, DefaultStatus: status}
}

// route makes the multiplexers of the table.
func (d *Door) route() {
	d.rows = d.table()
	d.api = d.newAPI()
	allowed := make(map[string][]string)
	for _, row := range d.rows {
		allowed[row.Path] = append(allowed[row.Path], row.Method)
		row.document(d.api)
	}
	d.mux.HandleFunc("GET /openapi.json", d.openAPI())
	d.mux.HandleFunc("GET /docs", d.docs)
	for path, methods := range allowed {
		d.paths.Handle(path, notAllowed(methods))
	}
	d.mountHandlers()
}

// mountHandlers has other handlers answer what is theirs.
func (d *Door) mountHandlers() {
	elsewhere := http.Handler(http.HandlerFunc(noSuchPath))
	for pattern, h := range d.config.Handlers {
		if pattern == "/" {
			elsewhere = h
			continue
		}
		if need, guarded := handlerRights[pattern[strings.IndexByte(pattern, '/'):]]; guarded {
			h = d.config.Access.Protect(h, need)
		}
		d.mux.Handle(pattern, h)
	}
	d.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h, pattern := d.paths.Handler(r); pattern != "" {
			h.ServeHTTP(w, r)
			return
		}
		elsewhere.ServeHTTP(w, r)
	})
}

// notAllowed answers requests with a method that a path does not have.
func notAllowed(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		newProblem(http.StatusMethodNotAllowed, wordUnsupported, "%s: this path has %s", r.Method, allow).Write(w)
	}
}

func noSuchPath(w http.ResponseWriter, _ *http.Request) {
	newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such path; /docs says what there is").Write(w)
}

// document registers the row, and takes down its parameters.
func (row *row) document(api huma.API) {
	doc := row.doc
	doc.Method, doc.Path = row.Method, row.Path
	doc.Tags = []string{strings.Split(row.Path, "/")[2]}
	doc.Extensions = map[string]any{"x-right": string(row.Right)}
	doc.BodyReadTimeout = httpserve.BodyTimeout
	doc.Errors = []int{400, 401, 403, 404, 415, 422, 503}
	doc.Errors = append(doc.Errors, row.refusals...)
	row.register(api, doc)

	row.query = make(map[string]bool)
	made := operationOf(api, row)
	for _, p := range made.Parameters {
		if p.In == "query" {
			row.query[p.Name] = p.Schema.Type == huma.TypeArray
		}
	}
	for kind, schema := range row.bodies {
		made.RequestBody.Content[kind] = &huma.MediaType{Schema: schema}
	}
	if row.none != "" {
		made.Responses["204"] = &huma.Response{Description: row.none}
	}
}
