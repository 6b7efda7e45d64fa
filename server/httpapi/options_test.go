package httpapi

import (
	"reflect"
	"strings"
	"testing"

	"redstalk/protocol"
	"redstalk/tube/field"
)

// kinds are the types of the fields for the kinds of tags.
var kinds = map[string]string{
	"DURATION": "*httpapi.duration", "DURATIONS": "httpapi.retries", "TIME": "*int64", "N": "*uint32 *uint64", "PERCENT": "*uint8", "ACTION": "*string",
	"KEY": "*string", "TUBE": "*string", "URL": "*string", "RATE": "*string", "WHAT": "*httpapi.duplicate", "RATES": "*string", "ORDER": "*string", "GROUP": "*string", "BATCH": "*string", "NAME=VALUE": "map[string]string", "TRACEPARENT": "*string",
}

// TestOptionsAreTags: the options of a put are the tags, the priority and the TTR; those of a policy are its tags.
func TestOptionsAreTags(t *testing.T) {
	t.Parallel()
	wantTags(t, reflect.TypeFor[Terms](), field.InPut, "priority", "ttr")
	wantTags(t, reflect.TypeFor[policyInfo](), field.InPolicy)
}

func wantTags(t *testing.T, options reflect.Type, set field.Commands, others ...string) {
	t.Helper()
	have := optionFields(options, "json")
	for _, name := range others {
		if have[name].Type == nil {
			t.Errorf("%v has no %s", options, name)
		}
		delete(have, name)
	}
	for _, tag := range protocol.TagsIn(set) {
		name := strings.ReplaceAll(tag.Name, "-", "_")
		if kind := have[name].Type; kind == nil || !strings.Contains(kinds[tag.Kind], kind.String()) {
			t.Errorf("%s of %v is %v, and the tag %s", name, options, kind, tag.Kind)
		}
		delete(have, name)
	}
	if len(have) > 0 {
		t.Errorf("%v has options that are no tags: %v", options, have)
	}
}
