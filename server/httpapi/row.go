package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/protocol"
	"redstalk/server/httpserve"
)

// Right is the right that a caller needs on the tubes that an operation concerns. It is that of a
// command of the beanstalk protocol which does the same. 0 is for every user, and for unauthenticated
// clients that have any right.
type Right = protocol.Right

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

	OfBatch    TubeAt = "batch"    // the tubes of the batch {batch} in the path
	OfSchedule TubeAt = "schedule" // the tube of the schedule {schedule} in the path
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
	anyBody  bool // the body can have any content type
	ofRecord bool // it is about the record of the job, too, when that has ended
	local    bool // without a users file, only for clients on this machine

	doc      huma.Operation
	register func(api huma.API, doc huma.Operation) // adds it to the document and to huma
	direct   http.HandlerFunc                       // if not nil, serves it instead of huma

	// The part of the documentation that does not follow from the types.
	extraQuery    func(huma.Registry) []*huma.Param
	extraStatuses []int                   // further statuses of problems
	extraBodies   map[string]*huma.Schema // further request bodies, by content type
	noBody        string                  // what the answer 204 means, if 200 is possible as well
	record        string                  // when the answer is 200 with the record of an ended job, if 201 is possible as well

	query map[string]bool // the query parameters, and whether they can be repeated
}

// typed returns a row whose input huma parses and validates. If f returns nil, the answer
// has no body.
func typed[I, O any](svc *service, op Operation, doc huma.Operation, f func(context.Context, *I) (*O, error)) *row {
	problems := func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, svc.problem(err, op.Method, op.Path)
		}
		if out == nil {
			out = new(O)
		}
		return out, nil
	}
	return &row{Operation: op, doc: doc, register: func(api huma.API, doc huma.Operation) { huma.Register(api, doc, problems) }}
}

// direct returns a row whose handler parses requests itself. I and O only document it.
func direct[I, O any](svc *service, op Operation, doc huma.Operation, h http.HandlerFunc) *row {
	r := typed(svc, op, doc, func(context.Context, *I) (*O, error) { return nil, nil })
	r.direct = h
	return r
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
	if row.extraQuery != nil {
		operation.Parameters = append(operation.Parameters, row.extraQuery(api.OpenAPI().Components.Schemas)...)
	}
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
	if row.record != "" {
		schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[EndedInfo](), true, "")
		operation.Responses["200"] = &huma.Response{Description: row.record, Content: map[string]*huma.MediaType{jsonType: {Schema: schema}}}
	}
}

// operationOf returns the entry of a row in the OpenAPI document.
func operationOf(api huma.API, row *row) *huma.Operation {
	item := api.OpenAPI().Paths[row.Path]
	return map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete}[row.Method]
}
