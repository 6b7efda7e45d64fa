package httpapi

import (
	"context"

	"redstalk/server/access"
)

type callerOutput struct{ Body callerInfo }

// callerInfo is the user of a request and its rights.
type callerInfo struct {
	User       string   `json:"user,omitempty" doc:"missing if there is no users file"`
	Anonymous  bool     `json:"anonymous,omitempty" doc:"there is a users file, and the request has no credentials"`
	Everywhere []string `json:"everywhere" nullable:"false" doc:"rights on all tubes and on the instance"`
	Somewhere  []string `json:"somewhere" nullable:"false" doc:"rights on at least one tube"`

	Tubes map[string][]string `json:"tubes,omitempty" nullable:"false" doc:"rights on the tubes in the query"`
}

type callerInput struct {
	Tube []string `query:"tube,explode" maxItems:"1000" doc:"tubes whose rights to return"`
}

func (api *API) caller(ctx context.Context, in *callerInput) (*callerOutput, error) {
	info := callerInfo{Everywhere: rightNames(access.All), Somewhere: rightNames(access.All)}
	on := func(string) access.Right { return access.All }
	if u := access.UserIn(ctx); u != nil {
		info.User, info.Anonymous, on = u.Name(), u == api.config.Access.Anonymous(), u.On
		info.Everywhere, info.Somewhere = rightNames(u.Everywhere()), rightNames(u.Anywhere())
	}
	if len(in.Tube) > 0 {
		info.Tubes = make(map[string][]string, len(in.Tube))
	}
	for _, name := range in.Tube {
		info.Tubes[name] = rightNames(on(name))
	}
	return &callerOutput{info}, nil
}

// rightNames returns the names of rights.
func rightNames(all access.Right) []string {
	return append([]string{}, all.Words()...) // not nil
}
